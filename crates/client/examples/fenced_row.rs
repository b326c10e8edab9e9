//! A row of a PostgreSQL table that refuses a writer whose lock is over.
//!
//! ```sh
//! lockstead serve --durability none &
//! cargo run -p lockstead-client --example fenced_row -- postgresql:///test
//! ```
//!
//! It writes twice. The first writer takes the lock and then stands still, as a program in a long garbage collection or
//! on a suspended machine does, until its lease has ended and a second writer has been there. Then it writes all the
//! same, and the table refuses it.
//!
//! The statements go through `psql`, so that the example shows SQL and not a driver; with one, they are the same.

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use lockstead_client::blocking::{Client, Ticket};

const SECOND: Duration = Duration::from_secs(1);

const CREATE: &str = "CREATE TABLE IF NOT EXISTS fenced_report (
    id int PRIMARY KEY, body text NOT NULL, token bigint NOT NULL);
    INSERT INTO fenced_report VALUES (1, '', 0) ON CONFLICT (id) DO UPDATE SET body = '', token = 0;";

/// The whole of fencing: the row remembers the greatest token, and a smaller one changes nothing.
const WRITE: &str = "UPDATE fenced_report SET body = :'body', token = :token WHERE id = 1 AND token <= :token
    RETURNING body;";

const DROP: &str = "DROP TABLE fenced_report;";

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("which database? for example postgresql:///test")?;
    let server = std::env::var("LOCKSTEAD_SERVER").unwrap_or_else(|_| "127.0.0.1:5625".to_owned());
    let client = Client::builder().server(&server)?.connect()?;
    psql(&url, CREATE, &[])?;

    let slow = client.acquire("report/1").lease(SECOND).call()?;
    println!("the slow writer has token {} and stands still", slow.token());
    let quick = client.acquire("report/1").wait(5 * SECOND).lease(30 * SECOND).call()?;
    println!("its lease is over: the quick writer has token {}", quick.token());
    assert!(write(&url, &quick, "by the quick writer")?, "nobody was there before");
    quick.release();

    // A careful program would look at `slow.valid()` first, and it says no by now. The row needs no such care.
    assert!(!slow.valid());
    let written = write(&url, &slow, "by the slow writer")?;
    println!("the slow writer wrote: {written}");
    assert!(!written, "an older token was refused");
    psql(&url, DROP, &[])?;
    Ok(())
}

/// Writes the row in the name of the lock. Says whether it was taken; if not, a later holder was there before.
fn write(url: &str, ticket: &Ticket, body: &str) -> Result<bool, Box<dyn Error>> {
    let token = ticket.token().to_string();
    let written = psql(url, WRITE, &[("body", body), ("token", &token)])?;
    Ok(!written.is_empty())
}

/// Runs a statement with variables, and gives what it returns.
fn psql(url: &str, statement: &str, variables: &[(&str, &str)]) -> Result<String, Box<dyn Error>> {
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--dbname", url]);
    command.args(["--set", "ON_ERROR_STOP=1"]);
    for (name, value) in variables {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    // Variables are put in only where statements come from a file or from standard input.
    let output = run_with_input(command.args(["--file", "-"]), statement)?;
    Ok(output.trim().to_owned())
}

fn run_with_input(command: &mut Command, input: &str) -> Result<String, Box<dyn Error>> {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("psql has no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("psql failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
