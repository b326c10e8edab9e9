//! What a data directory looks like from outside: names and bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

/// Names, bytes and times of the last change of all files in a directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<String, (Vec<u8>, SystemTime)>);

impl Snapshot {
    /// Looks at a directory.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn of(dir: &Path) -> Self {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(dir).expect("a directory can be listed") {
            let entry = entry.expect("a directory can be listed");
            let name = entry.file_name().into_string().expect("names are text here");
            let changed = entry.metadata().and_then(|meta| meta.modified()).expect("a file has a time");
            files.insert(name, (fs::read(entry.path()).expect("a file can be read"), changed));
        }
        Self(files)
    }

    /// Writes the files into a directory that is made for them.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn write_to(&self, dir: &Path) {
        fs::create_dir_all(dir).expect("a directory can be made");
        for (name, (bytes, _)) in &self.0 {
            fs::write(dir.join(name), bytes).expect("a file can be written");
        }
    }

    /// The bytes of a file.
    ///
    /// # Panics
    /// When there is none of this name.
    pub fn bytes(&self, name: &str) -> &[u8] {
        &self.0.get(name).unwrap_or_else(|| panic!("there is no {name} in {self:?}")).0
    }

    /// The bytes of a file, to be changed.
    ///
    /// # Panics
    /// When there is none of this name.
    pub fn bytes_mut(&mut self, name: &str) -> &mut Vec<u8> {
        &mut self.0.get_mut(name).unwrap_or_else(|| panic!("there is no {name}")).0
    }

    /// The names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, (bytes, _))| (name, bytes.len()))).finish()
    }
}

/// How much of the disk the files of a directory take at one moment, with what is reserved behind their ends, whatever
/// is made, grows and vanishes meanwhile. It may be a little less, never more.
///
/// # Panics
/// When the directory cannot be read.
pub fn size(dir: &Path) -> u64 {
    loop {
        let before = names_and_sizes(dir);
        // Files only grow. If none has gone while the sizes were read, they were all there when the last was.
        let after = names_and_sizes(dir);
        if before.keys().all(|name| after.contains_key(name)) {
            return before.values().sum();
        }
    }
}

/// What `blocks` counts, whatever the file system's own are.
const BLOCK: u64 = 512;

fn names_and_sizes(dir: &Path) -> BTreeMap<std::ffi::OsString, u64> {
    let mut sizes = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory can be listed") {
        let entry = entry.expect("a directory can be listed");
        match entry.metadata() {
            Ok(meta) => _ = sizes.insert(entry.file_name(), meta.len().max(meta.blocks() * BLOCK)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => panic!("{}: {error}", entry.path().display()),
        }
    }
    sizes
}
