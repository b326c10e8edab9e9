//! Every scenario that all clients must pass, run against this one.

mod scenario_runner;

use lockstead_testkit::scenario::{Need, Scenario, directory};
use scenario_runner::{run, run_all};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How many scenarios run at a time: they mostly wait.
const AT_A_TIME: usize = 16;

/// Scenarios with thousands of calls run by themselves, since they would make the others late.
fn is_heavy(scenario: &Scenario) -> bool {
    scenario.needs.contains(&Need::ByteExact) || scenario.name == "rule18_a_full_queue"
}

#[test]
fn every_scenario_passes() {
    let scenarios = Scenario::read_all(&directory()).expect("every file is a scenario");
    let files = fs::read_dir(directory()).expect("the directory is there").count();
    assert_eq!(scenarios.len(), files, "a file was not read");
    let (heavy, light): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(is_heavy);
    let mut faults = run_all(&light, AT_A_TIME);
    faults.extend(run_all(&heavy, 1));
    assert!(faults.is_empty(), "{} of {files} scenarios fail:\n\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn every_rule_has_a_scenario() {
    let scenarios = Scenario::read_all(&directory()).expect("every file is a scenario");
    let shown: BTreeSet<u8> = scenarios.iter().flat_map(|scenario| scenario.rules.clone()).collect();
    assert_eq!(shown, (1..=18).collect(), "rules with a scenario");
    for scenario in scenarios {
        for report in &scenario.reports {
            assert!(report.starts_with('P') && report.len() == 3, "{}: {report}", scenario.name);
        }
    }
}

/// Each of these scenarios has one wrong expectation.
#[test]
fn canary_a_wrong_expectation_is_found() {
    let planted = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/tests/canary");
    let scenarios = Scenario::read_all(&planted).expect("every canary is a scenario");
    assert!(scenarios.len() >= 6, "the canaries are gone");
    for scenario in &scenarios {
        let result = run(scenario);
        assert!(result.is_err(), "{} passed", scenario.name);
    }
}
