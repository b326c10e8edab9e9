//! Does one case once, to be counted: `lockstead-micro <case>`. Without a name, lists those that are.

use lockstead_micro::{OPERATIONS, cases, measured};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut counted = cases().into_iter().filter(|case| case.is_counted);
    let Some(name) = std::env::args().nth(1) else {
        counted.for_each(|case| println!("{}", case.name));
        return ExitCode::SUCCESS;
    };
    let Some(case) = counted.find(|case| case.name == name) else {
        eprintln!("lockstead-micro: no case is named {name}; without a name, all are listed");
        return ExitCode::from(2);
    };
    let mut work = case.make();
    work.prepare();
    let right = measured(&mut *work);
    if right != OPERATIONS {
        eprintln!("lockstead-micro: {name}: only {right} of {OPERATIONS} operations went as they should");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
