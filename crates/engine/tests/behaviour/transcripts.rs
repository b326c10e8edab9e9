//! Flows and ties as text: every file in `tests/transcripts` is run, and what the engine says is compared line by line.
//!
//! A line that begins with four spaces is what the engine says to the line above. With `UPDATE=1` in the environment
//! the files are rewritten, to be read as a diff. The commands:
//!
//! ```text
//! start [keys=N] [waiters=N] [per_key=N] [per_session=N] [max_lease=N] [recovers_until=MS]
//! restore KEY token=N ends=MS         before the first session opens
//! open NAME ..                        opens sessions
//! at MS [budget=N]                    goes on to that instant; with a budget, says whether more is due
//! NAME acquire KEY wait=S lease=S owner=N
//! NAME release KEY token=N            NAME extend KEY lease=S token=N
//! NAME cancel KEY owner=N             NAME query KEY id=N
//! close NAME [unsent=TOKEN,..]
//! drain
//! storage_fails [lost=TOKEN,..]       storage_works
//! counts                              says what the table holds and when something is due next
//! ```

use crate::say;
use crate::world::{World, grant};
use lockstead_engine::{Command, Effect, Limits, SessionId, UnsentGrant};
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

#[test]
fn transcripts_are_what_the_engine_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 12, "transcripts are missing: {files:?}");
    for file in files {
        let expected = fs::read_to_string(&file).unwrap();
        let said = run(&expected);
        if env::var_os("UPDATE").is_some() {
            fs::write(&file, said).unwrap();
        } else {
            for (number, (said, expected)) in said.lines().zip(expected.lines()).enumerate() {
                assert_eq!(said, expected, "{}, line {}", file.display(), number + 1);
            }
            assert_eq!(said, expected, "{}", file.display());
        }
    }
}

/// A transcript without what the engine said, and that again.
fn run(transcript: &str) -> String {
    let mut scene = Scene::new();
    let mut text = String::new();
    for line in transcript.lines().filter(|line| !line.starts_with("    ")) {
        text += line;
        text += "\n";
        if !line.is_empty() && !line.starts_with('#') {
            for said in scene.run(line) {
                text += &format!("    {said}\n");
            }
        }
    }
    text
}

struct Scene {
    limits: Limits,
    recovers_until: Option<u64>,
    restored: Vec<(String, u64, u64)>,
    world: Option<World>,
    sessions: BTreeMap<String, SessionId>,
    grants: BTreeMap<u64, UnsentGrant>,
}

impl Scene {
    fn new() -> Self {
        Self {
            limits: Limits::default(),
            recovers_until: None,
            restored: Vec::new(),
            world: None,
            sessions: BTreeMap::new(),
            grants: BTreeMap::new(),
        }
    }

    fn run(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["start", ref options @ ..] => self.start(options),
            ["restore", key, token, ends] => {
                self.restored.push((key.to_string(), number(token, "token"), number(ends, "ends")));
                Vec::new()
            }
            ["open", ref names @ ..] => {
                for name in names {
                    let session = self.world().open();
                    self.sessions.insert(name.to_string(), session);
                }
                Vec::new()
            }
            ["at", ms] => {
                let effects = self.world().at(ms.parse().unwrap());
                self.say(&effects)
            }
            ["at", ms, budget] => {
                let (effects, progress) =
                    self.world().slice(ms.parse().unwrap(), number(budget, "budget") as usize);
                let mut said = self.say(&effects);
                said.push(format!("{progress:?}"));
                said
            }
            ["close", name, ref unsent @ ..] => self.close(name, unsent),
            ["drain"] => {
                let effects = self.world().drain();
                self.say(&effects)
            }
            ["storage_fails", ref lost @ ..] => {
                let lost = self.grants(lost, "lost=");
                let effects = self.world().storage_fails(&lost);
                self.say(&effects)
            }
            ["storage_works"] => {
                self.world().storage_works();
                Vec::new()
            }
            ["counts"] => {
                let counts = self.world().engine.counts();
                let next = self.world().next_deadline_ms();
                let next = next.map_or("never".into(), |ms| ms.to_string());
                vec![format!(
                    "held={} keys={} waiters={} next={next}",
                    counts.held, counts.keys, counts.waiters
                )]
            }
            [name, ref request @ ..] => {
                let session = self.sessions[name];
                let effects = self.world().run(session, command(request));
                self.say(&effects)
            }
            [] => panic!("a line of blanks"),
        }
    }

    fn start(&mut self, options: &[&str]) -> Vec<String> {
        for option in options {
            let (name, value) = option.split_once('=').unwrap();
            let value: u32 = value.parse().unwrap();
            match name {
                "keys" => self.limits.max_keys = value,
                "waiters" => self.limits.max_waiters = value,
                "per_key" => self.limits.max_waiters_per_key = value,
                "per_session" => self.limits.max_waiters_per_session = value,
                "max_lease" => self.limits.max_lease_s = value.try_into().unwrap(),
                "recovers_until" => self.recovers_until = Some(value.into()),
                other => panic!("no option {other}"),
            }
        }
        Vec::new()
    }

    /// The engine, made when it is first needed: leases are restored before.
    fn world(&mut self) -> &mut World {
        self.world.get_or_insert_with(|| {
            let restored: Vec<_> =
                self.restored.iter().map(|(key, token, ends)| (key.as_str(), *token, *ends)).collect();
            World::restored(self.limits, self.recovers_until, &restored)
        })
    }

    fn close(&mut self, name: &str, unsent: &[&str]) -> Vec<String> {
        let session = self.sessions.remove(name).unwrap();
        let unsent = self.grants(unsent, "unsent=");
        let effects = self.world().close(session, &unsent);
        self.say(&effects)
    }

    /// The grants whose tokens are listed.
    fn grants(&self, words: &[&str], name: &str) -> Vec<UnsentGrant> {
        let tokens = words.iter().flat_map(|word| word.strip_prefix(name).unwrap().split(','));
        tokens.map(|token| self.grants[&token.parse().unwrap()]).collect()
    }

    fn say(&mut self, effects: &[Effect]) -> Vec<String> {
        let mut said = Vec::new();
        for effect in effects {
            self.grants.extend(grant(effect).map(|grant| (grant.token, grant)));
            let name = self.sessions.iter().find(|(_, session)| **session == effect.session);
            said.push(format!("{} {}", name.unwrap().0, say::answer(&effect.answer)));
        }
        said
    }
}

fn command<'a>(request: &[&'a str]) -> Command<'a> {
    match *request {
        ["acquire", key, wait, lease, owner] => Command::Acquire {
            wait_s: number(wait, "wait") as u8,
            lease_s: number(lease, "lease") as u8,
            owner: number(owner, "owner"),
            key,
        },
        ["release", key, token] => Command::Release { token: number(token, "token"), key },
        ["extend", key, lease, token] => {
            Command::Extend { lease_s: number(lease, "lease") as u8, token: number(token, "token"), key }
        }
        ["cancel", key, owner] => Command::Cancel { owner: number(owner, "owner"), key },
        ["query", key, id] => Command::Query { id: number(id, "id"), key },
        ref other => panic!("no request {other:?}"),
    }
}

fn number(word: &str, name: &str) -> u64 {
    let value = word.strip_prefix(name).and_then(|value| value.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{word} is no {name}=")).parse().unwrap()
}
