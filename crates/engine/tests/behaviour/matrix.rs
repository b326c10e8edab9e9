//! Every cell of the two tables of docs/protocol.md, *Request × key state*, against what the engine does.
//!
//! What is observed is put into the words of the table (`cells`), then compared with the page itself: a cell that is
//! changed, lost or added there fails here.

mod cells;
mod scene;

use cells::{Condition, KeyState, Row};

const PAGE: &str = include_str!("../../../../docs/protocol.md");
const HEADING: &str = "## Request × key state";
const NOT_BUILT: &str = "not built yet";
const FORCED_RELEASE: &str = "forced release";

/// The rows that the engine has, as the page calls them.
const ROWS: [(&str, Row); 11] = [
    ("`A`, wait 0", Row::AcquireNow),
    ("`A`, wait 1..=255", Row::AcquireWait),
    ("`R`, active token", Row::ReleaseActive),
    ("`R`, any other token", Row::ReleaseOther),
    ("`E`, active token", Row::ExtendActive),
    ("`E`, any other token", Row::ExtendOther),
    ("`C`", Row::Cancel),
    ("`Q`", Row::Query),
    ("lease ends", Row::LeaseEnds),
    ("wait ends", Row::WaitEnds),
    ("session closes", Row::SessionCloses),
];

#[derive(Debug)]
struct Table {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    fn cell(&self, row: &str, column: &str) -> &str {
        let row = self.rows.iter().find(|(name, _)| name == row);
        let column = self.columns.iter().position(|name| name == column);
        &row.expect("the row is there").1[column.expect("the column is there")]
    }

    fn row_names(&self) -> Vec<&str> {
        self.rows.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// The tables of the section, in order.
fn tables() -> [Table; 2] {
    let after = PAGE.split_once(&format!("{HEADING}\n")).expect("the page has the section").1;
    let section = after.split("\n## ").next().expect("there is a first part");
    let mut tables: Vec<Table> = Vec::new();
    for line in section.lines().filter(|line| line.starts_with('|') && !line.starts_with("| ---")) {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_string());
        let name = cells.next().expect("a row has a name");
        let cells: Vec<String> = cells.collect();
        if name == "request or event" {
            tables.push(Table { columns: cells, rows: Vec::new() });
        } else {
            let table = tables.last_mut().expect("a table begins with its columns");
            assert_eq!(cells.len(), table.columns.len(), "{name}");
            table.rows.push((name, cells));
        }
    }
    tables.try_into().expect("the section has two tables")
}

#[test]
fn key_states_are_as_the_page_says() {
    let [states, _] = tables();
    assert_eq!(states.columns, ["free key", "held key"]);
    let mut rows: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    rows.push(FORCED_RELEASE);
    assert_eq!(states.row_names(), rows);
    for (name, row) in ROWS {
        for (column, key) in [("free key", KeyState::Free), ("held key", KeyState::Held)] {
            let observed = cells::observe(row, key, Condition::None);
            assert_eq!(states.cell(name, column), observed, "{name}, {column}");
        }
    }
    assert_eq!(states.cell(FORCED_RELEASE, "free key"), "–");
}

#[test]
fn conditions_are_as_the_page_says() {
    let [_, conditions] = tables();
    assert_eq!(conditions.columns, ["recovering", "draining", "storage failing"]);
    let mut rows: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    rows.extend([FORCED_RELEASE, "when it starts", "when it ends"]);
    assert_eq!(conditions.row_names(), rows);
    for (column, condition) in [
        ("recovering", Condition::Recovering),
        ("draining", Condition::Draining),
        ("storage failing", Condition::StorageFailing),
    ] {
        for (name, row) in ROWS {
            let observed = under(row, condition);
            assert_eq!(conditions.cell(name, column), observed, "{name}, {column}");
        }
    }
    assert_eq!(conditions.cell("when it starts", "recovering"), cells::recovery_starts());
    assert_eq!(conditions.cell("when it ends", "recovering"), cells::recovery_ends());
    assert_eq!(conditions.cell("when it starts", "draining"), cells::draining_starts());
    assert_eq!(conditions.cell("when it ends", "draining"), cells::draining_ends());
    assert_eq!(conditions.cell("when it starts", "storage failing"), cells::storage_failing_starts());
    assert_eq!(conditions.cell("when it ends", "storage failing"), cells::storage_failing_ends());
}

#[test]
fn what_is_not_built_is_said() {
    let [states, conditions] = tables();
    for table in [&states, &conditions] {
        for (name, cells) in &table.rows {
            for (column, cell) in table.columns.iter().zip(cells) {
                let later = name == FORCED_RELEASE && column != "free key";
                assert_eq!(cell.starts_with(NOT_BUILT), later, "{name}, {column}");
                assert_eq!(cell.contains(NOT_BUILT), later, "{name}, {column}");
            }
        }
    }
}

/// What a row does under a condition, told by how it differs from the state of the key.
fn under(row: Row, condition: Condition) -> String {
    let keys = [KeyState::Free, KeyState::Held];
    let [free, held] = keys.map(|key| cells::observe(row, key, condition));
    let usual = keys.map(|key| cells::observe(row, key, Condition::None));
    let as_usual = |told: &str, usual: &str| {
        if told == usual { "as in the key's state".to_string() } else { told.to_string() }
    };
    let [told_free, told_held] = [as_usual(&free, &usual[0]), as_usual(&held, &usual[1])];
    if told_free == told_held {
        told_free
    } else if free == held {
        free
    } else {
        format!("free key: {told_free}; held key: {told_held}")
    }
}
