//! `lockstead repair`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use lockstead_journal::{BootIdentity, Cut, FileStorage};
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

use crate::args::RepairArgs;
use crate::exit::Status;
use crate::{data_dir, output};

/// Looks at a data directory, cuts it, or marks it.
pub fn repair(args: &RepairArgs) -> anyhow::Result<Status> {
    let dir = data_dir::resolve(args.data.data_dir.as_deref())?;
    match (&args.cut, &args.to) {
        (Some(cut), Some(to)) => cut_into(&dir, cut, to),
        _ if args.restored => mark_restored(&dir),
        _ => report(&dir, args.boot_id_file.as_deref()),
    }
}

fn report(dir: &Path, boot_id_file: Option<&Path>) -> anyhow::Result<Status> {
    let storage = data_dir::open_existing(dir)?;
    let boot = match boot_id_file {
        None => BootIdentity::read().ok(),
        Some(file) => {
            let boot = BootIdentity::from_file(file);
            Some(boot.with_context(|| format!("cannot read a boot id from {}", file.display()))?)
        }
    };
    let report = lockstead_journal::report(&storage, boot.as_ref(), now_ms())
        .with_context(|| format!("cannot look at {}", dir.display()))?;
    let text = report.to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(cut) = &report.cut {
        let dir = dir.display();
        lines.push("to go on with what comes before that place, and a recovery of 255 s:".to_owned());
        lines.push(format!("  lockstead repair --data-dir {dir} --cut {cut} --to NEWDIR"));
    }
    output::print(&lines.join("\n"))?;
    Ok(if report.start.is_ok() { Status::DONE } else { Status::NO })
}

fn cut_into(dir: &Path, cut: &Cut, to: &Path) -> anyhow::Result<Status> {
    let from = data_dir::open_existing(dir)?;
    let cannot = || format!("cannot cut {} into {}", dir.display(), to.display());
    let new = FileStorage::open(to).with_context(cannot)?;
    lockstead_journal::cut(&from, &new, cut, &random()?).with_context(cannot)?;
    let (old, to) = (dir.display(), to.display());
    output::print(&format!(
        "{to} holds what {old} holds before {cut}; a start from it grants nothing for the first 255 s"
    ))?;
    if owner_if_not_us(dir).with_context(cannot)?.is_some() {
        output::complain(&format!(
            "{old} is not yours, but {to} is: `chown -R --reference={old} {to}` gives it to the same user"
        ));
    }
    Ok(Status::DONE)
}

fn mark_restored(dir: &Path) -> anyhow::Result<Status> {
    let storage = data_dir::open_existing(dir)?;
    let cannot = || format!("cannot mark {}", dir.display());
    if let Some(owner) = owner_if_not_us(dir).with_context(cannot)? {
        bail!(
            "{} belongs to the user with the id {owner}, who could not read what this user writes there; run this \
             as that user, for example with `sudo -u '#{owner}'`",
            dir.display()
        );
    }
    lockstead_journal::mark_restored(&storage, &random()?).with_context(cannot)?;
    output::print(&format!(
        "{} is marked; a start from it grants nothing for the first 255 s",
        dir.display()
    ))?;
    Ok(Status::DONE)
}

/// Who owns a directory, if not the user that this program runs as.
fn owner_if_not_us(dir: &Path) -> io::Result<Option<u32>> {
    let owner = fs::metadata(dir)?.uid();
    Ok((owner != geteuid().as_raw()).then_some(owner))
}

fn random() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("cannot read random numbers")?;
    Ok(bytes)
}

/// Milliseconds of CLOCK_BOOTTIME.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec * 1_000 + now.tv_nsec / 1_000_000).expect("the time since boot is not negative")
}
