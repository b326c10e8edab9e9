//! Frames as scenarios write them, such as `A 5 30 $o1 jobs/nightly`: the op, its header fields in order, its text.

use std::collections::HashMap;

/// Ids that clients draw have this bit (docs/protocol.md).
const CLIENT_ID_BIT: u64 = 1 << 63;

/// The longest text of a request, with its newline.
const MAX_TEXT: usize = 1_025;

/// The header of a frame: how wide each field is, in bytes, and whether a text follows.
struct Shape {
    op: u8,
    fields: &'static [usize],
    text: bool,
}

const fn shape(op: u8, fields: &'static [usize], text: bool) -> Shape {
    Shape { op, fields, text }
}

const REQUESTS: &[Shape] = &[
    shape(b'A', &[1, 1, 8], true),
    shape(b'R', &[8], true),
    shape(b'E', &[1, 8], true),
    shape(b'C', &[8], true),
    shape(b'Q', &[8], true),
    shape(b'P', &[8], false),
    shape(b'H', &[1, 8], true),
];

const ANSWERS: &[Shape] = &[
    shape(b'A', &[8, 8, 1, 4], false),
    shape(b'T', &[8], false),
    shape(b'B', &[8, 1], false),
    shape(b'R', &[8], false),
    shape(b'E', &[8, 1], false),
    shape(b'N', &[8], false),
    shape(b'Q', &[8, 1, 4, 4], false),
    shape(b'P', &[8], false),
    shape(b'H', &[1, 8], true),
    shape(b'X', &[1, 8], true),
];

fn find(shapes: &'static [Shape], op: u8) -> Option<&'static Shape> {
    shapes.iter().find(|shape| shape.op == op)
}

/// One request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) op: u8,
    pub(super) fields: Vec<u64>,
    pub(super) text: Vec<u8>,
}

impl Request {
    /// Takes the first request off `bytes`, and says how long it was; `None` when more must come.
    pub(super) fn take(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let Some(&op) = bytes.first() else { return Ok(None) };
        let shape = find(REQUESTS, op).ok_or_else(|| format!("a request with the unknown op {op:#04x}"))?;
        let mut fields = Vec::with_capacity(shape.fields.len());
        let mut at = 1;
        for &width in shape.fields {
            let Some(field) = bytes.get(at..at + width) else { return Ok(None) };
            fields.push(field.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)));
            at += width;
        }
        let rest = &bytes[at..];
        let length = rest.iter().take(MAX_TEXT).position(|&byte| byte == b'\n');
        match length {
            Some(length) if shape.text || length == 0 => {
                let text = rest[..length].to_vec();
                Ok(Some((Self { op, fields, text }, at + length + 1)))
            }
            None if rest.is_empty() || (shape.text && rest.len() < MAX_TEXT) => Ok(None),
            _ => Err(format!("a {} that does not end where it must", char::from(op))),
        }
    }

    /// The owner, if this is an acquire.
    pub(super) fn owner(&self) -> Option<u64> {
        (self.op == b'A').then(|| self.fields[2])
    }
}

/// Numbers that the client drew, by the names that the script gave them.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, u64>);

impl Names {
    /// Whether `request` is what `pattern` says; names seen for the first time are bound. `Err` is a fault of the
    /// script.
    pub(super) fn matches(&mut self, pattern: &str, request: &Request) -> Result<bool, String> {
        let (op, rest) = split_op(pattern)?;
        if op != request.op {
            return Ok(false);
        }
        let shape = find(REQUESTS, op).ok_or_else(|| format!("`{pattern}`: no such request"))?;
        let (words, text) = split_fields(pattern, rest, shape)?;
        let mut fresh = Vec::new();
        for (word, &value) in words.iter().zip(&request.fields) {
            let fits = match word.strip_prefix('$') {
                _ if *word == "*" => true,
                None => number(word)? == value,
                Some(name) => match self.0.get(name) {
                    Some(&bound) => bound == value,
                    None => {
                        fresh.push((name.to_owned(), value));
                        self.is_well_drawn(value)
                    }
                },
            };
            if !fits {
                return Ok(false);
            }
        }
        if shape.text && text != "*" && text.as_bytes() != request.text {
            return Ok(false);
        }
        self.0.extend(fresh);
        Ok(true)
    }

    /// A number that a client draws has the top bit and is never used again.
    fn is_well_drawn(&self, value: u64) -> bool {
        value & CLIENT_ID_BIT != 0 && !self.0.values().any(|&bound| bound == value)
    }

    /// A request as the script would write it.
    pub(super) fn show(&self, request: &Request) -> String {
        let mut line = char::from(request.op).to_string();
        for field in &request.fields {
            match self.0.iter().find(|(_, value)| *value == field) {
                Some((name, _)) if *field & CLIENT_ID_BIT != 0 => line.push_str(&format!(" ${name}")),
                _ => line.push_str(&format!(" {field}")),
            }
        }
        let text = String::from_utf8_lossy(&request.text);
        let mut short: String = text.chars().take(80).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        format!("{line} {short}")
    }

    /// The bytes of an answer.
    pub(super) fn answer(&self, line: &str) -> Result<Vec<u8>, String> {
        if let Some(hex) = line.strip_prefix("hex ") {
            return from_hex(hex).ok_or_else(|| format!("`{line}`: not hex digits in pairs"));
        }
        let (op, rest) = split_op(line)?;
        let shape = find(ANSWERS, op).ok_or_else(|| format!("`{line}`: no such answer"))?;
        let (words, text) = split_fields(line, rest, shape)?;
        let mut bytes = vec![op];
        for (word, &width) in words.iter().zip(shape.fields) {
            let value = match word.strip_prefix('$') {
                None => number(word)?,
                Some(name) => *self.0.get(name).ok_or_else(|| format!("`{line}`: ${name} was never seen"))?,
            };
            if width < 8 && value >> (8 * width) != 0 {
                return Err(format!("`{line}`: {value} does not fit into {width} bytes"));
            }
            bytes.extend_from_slice(&value.to_be_bytes()[8 - width..]);
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(b'\n');
        Ok(bytes)
    }
}

fn split_op(line: &str) -> Result<(u8, &str), String> {
    let (op, rest) = line.split_once(' ').ok_or_else(|| format!("`{line}`: an op and a field at least"))?;
    match op.as_bytes() {
        &[op] => Ok((op, rest)),
        _ => Err(format!("`{line}`: an op is one letter")),
    }
}

/// The header fields and the text.
fn split_fields<'a>(line: &str, rest: &'a str, shape: &Shape) -> Result<(Vec<&'a str>, &'a str), String> {
    let count = shape.fields.len();
    let mut words: Vec<&str> = rest.splitn(count + 1, ' ').collect();
    let text = if words.len() > count { words.pop() } else { None };
    if words.len() != count || text.is_some() != shape.text {
        let text = if shape.text { " and a text" } else { "" };
        return Err(format!("`{line}`: {count} fields{text} belong there"));
    }
    Ok((words, text.unwrap_or("")))
}

fn number(word: &str) -> Result<u64, String> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("`{word}` is not a number, a $name or *"))
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| (pair.len() == 2).then(|| pair[0] << 4 | pair[1]));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, frame};

    const OWNER: u64 = CLIENT_ID_BIT | 7;

    fn taken(bytes: &[u8]) -> Request {
        let (request, length) = Request::take(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        request
    }

    #[test]
    fn every_request_is_taken_apart_at_every_cut() {
        let frames = [
            frame::acquire(10, 10, 0x0a0a_0a0a_0a0a_0a0a, "k k"),
            frame::release(10, "k"),
            frame::extend(10, 10, "k"),
            frame::cancel(10, "k"),
            frame::query(10, "k"),
            frame::ping(10),
            frame::hello(1, 10, ""),
        ];
        for frame in frames {
            for cut in 0..frame.len() {
                assert_eq!(Request::take(&frame[..cut]), Ok(None), "{frame:?} cut at {cut}");
            }
            assert_eq!(taken(&frame).op, frame[0]);
        }
    }

    #[test]
    fn names_are_bound_at_first_sight_and_checked_later() {
        let mut names = Names::default();
        let acquire = taken(&frame::acquire(5, 30, OWNER, "a b"));
        assert_eq!(names.matches("A 5 30 $o1 a b", &acquire), Ok(true));
        assert_eq!(names.matches("C $o1 a b", &taken(&frame::cancel(OWNER, "a b"))), Ok(true));
        assert_eq!(names.matches("C $o1 a b", &taken(&frame::cancel(OWNER + 1, "a b"))), Ok(false));
        assert_eq!(names.show(&acquire), "A 5 30 $o1 a b");
        assert_eq!(names.matches("A * 30 * *", &taken(&frame::acquire(1, 30, 3, "x"))), Ok(true));
    }

    /// The canary: these must not pass.
    #[test]
    fn other_bytes_do_not_match() {
        let mut names = Names::default();
        assert_eq!(names.matches("A 5 30 $o1 k", &taken(&frame::acquire(5, 30, OWNER, "k"))), Ok(true));
        let wrong = [
            ("A 4 30 $o2 k", frame::acquire(5, 30, OWNER + 1, "k")),
            ("A 5 31 $o2 k", frame::acquire(5, 30, OWNER + 1, "k")),
            ("A 5 30 $o2 k", frame::acquire(5, 30, OWNER + 1, "kk")),
            ("A 5 30 $o2 k", frame::acquire(5, 30, OWNER, "k")),
            ("A 5 30 $o2 k", frame::acquire(5, 30, 8, "k")),
            ("R 8 k", frame::extend(1, 8, "k")),
        ];
        for (pattern, frame) in wrong {
            assert_eq!(names.matches(pattern, &taken(&frame)), Ok(false), "{pattern}: {frame:?}");
        }
        for bytes in [&b"Z\0\0\0\0\0\0\0\x01\n"[..], b"P\0\0\0\0\0\0\0\x01k\n"] {
            assert!(Request::take(bytes).is_err(), "accepted {bytes:?}");
        }
        let mut endless = frame::query(1, "");
        endless.pop();
        endless.resize(2_000, b'k');
        assert!(Request::take(&endless).is_err());
    }

    #[test]
    fn answers_have_the_bytes_that_the_checkers_own_parser_reads() {
        let mut names = Names::default();
        names.matches("P $p", &taken(&frame::ping(OWNER))).unwrap();
        let expected = [
            ("A $p 7 30 250", Answer::Acquired { owner: OWNER, token: 7, lease_s: 30, waited_ms: 250 }),
            ("T $p", Answer::TimedOut { owner: OWNER }),
            ("B $p 3", Answer::Busy { owner: OWNER, reason: 3 }),
            ("R 7", Answer::Released { token: 7 }),
            ("E 7 30", Answer::Extended { token: 7, lease_s: 30 }),
            ("N 7", Answer::NotHeld { token: 7 }),
            ("Q $p 1 500 2", Answer::State { id: OWNER, state: 1, remaining_ms: 500, waiters: 2 }),
            ("P $p", Answer::Pong { id: OWNER }),
            ("H 1 $p id=1 x=2", Answer::Welcome { version: 1, id: OWNER, text: "id=1 x=2".to_owned() }),
            ("X 2 $p bad key", Answer::Error { code: 2, id: OWNER, text: "bad key".to_owned() }),
        ];
        for (line, answer) in expected {
            assert_eq!(names.answer(line), Ok(answer.to_bytes()), "{line}");
        }
        assert_eq!(names.answer("hex 5a 0a"), Ok(b"Z\n".to_vec()));
    }

    #[test]
    fn a_script_that_makes_no_sense_is_refused() {
        let mut names = Names::default();
        for line in ["T $never", "A 1 2 3", "T 1 2", "B 1 256", "Z 1", "T x", "hex 5", "hex 5g", "T"] {
            assert!(names.answer(line).is_err(), "accepted `{line}`");
        }
        let ping = taken(&frame::ping(1));
        for pattern in ["P", "P 1 2", "P x"] {
            assert!(names.matches(pattern, &ping).is_err(), "accepted `{pattern}`");
        }
    }
}
