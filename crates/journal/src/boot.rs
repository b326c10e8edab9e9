//! Which boot of the machine this is: an instant of CLOCK_BOOTTIME means something only within one.

use std::fs;
use std::io;
use std::path::Path;

/// The longest identity that a run record holds, in bytes.
const MAX_LENGTH: usize = 255;

/// The boot id of the kernel and the boottime offset of the time namespace. Two processes with the same identity read
/// the same CLOCK_BOOTTIME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootIdentity(Box<str>);

impl BootIdentity {
    /// The identity of the running system.
    ///
    /// # Errors
    /// If the kernel does not tell. The caller then goes on without one, and another boot is assumed.
    pub fn read() -> io::Result<Self> {
        Self::from_file(Path::new("/proc/sys/kernel/random/boot_id"))
    }

    /// An identity with the text of a file in the place of the kernel's boot id, for containers and tests. The file
    /// must not outlive the boot.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no text or too much.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let id = fs::read_to_string(path)?;
        let offsets = match fs::read_to_string("/proc/self/timens_offsets") {
            Ok(offsets) => offsets,
            // A kernel without time namespaces has no offsets.
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        if id.trim().is_empty() {
            return Err(bad("the boot id is empty"));
        }
        Self::new(&format!("{}/{}", id.trim(), boottime_offset(&offsets)))
            .ok_or_else(|| bad("the boot id is too long"))
    }

    /// An identity from its text, 1 to 255 bytes.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (1..=MAX_LENGTH).contains(&text.len()).then(|| Self(text.into()))
    }

    /// The identity as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Seconds and nanoseconds of the line `boottime SECONDS NANOSECONDS`.
fn boottime_offset(offsets: &str) -> String {
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    let mut numbers = line.unwrap_or_default().split_whitespace();
    format!("{} {}", numbers.next().unwrap_or("0"), numbers.next().unwrap_or("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_that_of_the_boottime_line() {
        let text = "monotonic           0         0\nboottime      -86400       500\n";
        assert_eq!(boottime_offset(text), "-86400 500");
        assert_eq!(boottime_offset(""), "0 0");
    }

    #[test]
    fn a_file_stands_in_for_the_boot_id_and_its_text_tells_boots_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("boot-id");
        fs::write(&path, "one\n").unwrap();
        let one = BootIdentity::from_file(&path).unwrap();
        assert_eq!(one, BootIdentity::from_file(&path).unwrap());
        assert!(one.as_str().starts_with("one/"), "{one:?}");
        fs::write(&path, "two\n").unwrap();
        assert_ne!(one, BootIdentity::from_file(&path).unwrap());
        fs::write(&path, " \n").unwrap();
        assert!(BootIdentity::from_file(&path).is_err());
        assert!(BootIdentity::from_file(&dir.path().join("none")).is_err());
        assert_eq!(BootIdentity::new(&"x".repeat(256)), None);
    }
}
