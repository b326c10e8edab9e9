//! The worked examples of docs/protocol.md are frames of vectors/frames.json, byte for byte.
//!
//! An example is a code block marked `frame NAME`, where NAME is a frame of the vectors. Each of its
//! lines is hexadecimal bytes, then `;` and what they mean. The codec's own tests check the vectors.

use super::{Finding, Repo};
use std::collections::BTreeSet;

const PAGE: &str = "docs/protocol.md";
const VECTORS: &str = "vectors/frames.json";

/// One code block marked as a frame.
struct Example {
    name: String,
    line: usize,
    hex: String,
}

/// Each example equals the frame that it names, and each kind of good frame has one.
pub fn examples_are_in_the_vectors(repo: &Repo) -> Vec<Finding> {
    let Some(vectors) = repo.file(VECTORS) else {
        return Vec::new();
    };
    let Ok(vectors) = serde_json::from_str::<serde_json::Value>(&vectors.text) else {
        return vec![Finding::new(VECTORS, 0, "is not JSON")];
    };
    let frames = vectors["frames"].as_array().map_or(&[][..], Vec::as_slice);
    let mut findings = Vec::new();
    let mut shown = BTreeSet::new();
    for example in examples(repo.file(PAGE).map_or("", |page| page.text.as_str())) {
        match frames.iter().find(|frame| frame["name"] == example.name.as_str()) {
            Some(frame) if frame["hex"] == example.hex.as_str() => drop(shown.insert(kind(frame))),
            Some(frame) => {
                let what = format!("{} is {} but {VECTORS} says {}", example.name, example.hex, frame["hex"]);
                findings.push(Finding::new(PAGE, example.line, what));
            }
            None => {
                let what = format!("{VECTORS} has no frame named {:?}", example.name);
                findings.push(Finding::new(PAGE, example.line, what));
            }
        }
    }
    let good: BTreeSet<_> = frames.iter().filter(|f| f["meaning"].is_object()).map(kind).collect();
    for (direction, op) in good.difference(&shown) {
        findings.push(Finding::new(PAGE, 0, format!("has no worked example of the {direction} {op}")));
    }
    findings
}

/// Request or answer, and the name of its op.
fn kind(frame: &serde_json::Value) -> (String, String) {
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("").to_owned();
    (word(&frame["direction"]), word(&frame["meaning"]["op"]))
}

fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut inside = false;
    for (index, line) in page.lines().enumerate() {
        if let Some(name) = line.strip_prefix("```frame ") {
            found.push(Example { name: name.to_owned(), line: index + 1, hex: String::new() });
            inside = true;
        } else if line.starts_with("```") {
            inside = false;
        } else if inside && let Some(example) = found.last_mut() {
            let bytes = line.split(';').next().unwrap_or("");
            example.hex.extend(bytes.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: &str = r#"{"frames": [
        {"name": "ping", "direction": "request", "hex": "50000a", "meaning": {"op": "ping"}},
        {"name": "pong", "direction": "answer", "hex": "50010a", "meaning": {"op": "pong"}},
        {"name": "bad", "direction": "answer", "hex": "5a", "error": {"malformed": true}}
    ]}"#;

    fn check(page: &str) -> Vec<Finding> {
        examples_are_in_the_vectors(&Repo::planted(&[(PAGE, page), (VECTORS, FRAMES)]))
    }

    #[test]
    fn a_page_that_keeps_to_the_vectors_passes() {
        let page =
            "```frame ping\n50 00 ; 0A is the end\n0A\n```\n```frame pong\n50010a\n```\n```\n50\n```\n";
        assert_eq!(check(page), []);
    }

    #[test]
    fn canary_a_changed_byte_an_unknown_name_and_a_missing_frame_are_found() {
        let found = check("```frame ping\n50 02 0A\n```\n```frame pang\n50 01 0A\n```\n");
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 4, 0, 0], "{found:?}");
    }
}
