//! One look through the plugins folder. Nothing is opened here, so a pipe or a device cannot block it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What tells one content of a file from another without reading it. Links are followed, so a link that is turned to
/// another target shows as a change, also one in the middle of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    pub(super) len: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Seconds and nanoseconds of the last change of content or metadata: a chmod can make a file readable.
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// How long ago the content was changed, by the file's own clock.
    pub(super) fn age(&self, now: SystemTime) -> Duration {
        since(self.modified, now)
    }

    /// How long ago the file was touched in any way.
    pub(super) fn quiet(&self, now: SystemTime) -> Duration {
        since(self.modified, now).min(since(self.changed, now))
    }
}

/// The distance of two times: a clock that is a little ahead does not make a file old.
fn since((seconds, nanos): (i64, i64), now: SystemTime) -> Duration {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let part = Duration::from_nanos(nanos.unsigned_abs());
    let at = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let Some(at) = at.and_then(|at| at.checked_add(part)) else { return Duration::MAX };
    now.duration_since(at).unwrap_or_else(|ahead| ahead.duration())
}

/// What is under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// A file.
    File(Stamp),
    /// Something that cannot be read; what, as the rest of a sentence that begins with its name.
    Unusable(String),
}

impl Seen {
    pub(super) fn stamp(&self) -> Option<&Stamp> {
        match self {
            Self::File(stamp) => Some(stamp),
            Self::Unusable(_) => None,
        }
    }
}

/// What gives one bot: a manifest, a component, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) manifest: Option<Seen>,
    /// Where the component was looked for, relative to the folder.
    pub(super) component_path: PathBuf,
    pub(super) component: Option<Seen>,
}

impl Sight {
    /// The stamps of what is a file.
    pub(super) fn stamps(&self) -> impl Iterator<Item = &Stamp> {
        self.manifest.iter().chain(&self.component).filter_map(Seen::stamp)
    }
}

/// Looks through the folder. `known` are the stems seen before, each with the component its manifest names: they are
/// looked at even if the listing lacks them, as it may while files are being renamed.
pub(super) fn look_through(
    dir: &Path,
    known: &HashMap<OsString, Option<PathBuf>>,
) -> io::Result<BTreeMap<OsString, Sight>> {
    let mut stems: BTreeSet<OsString> = known.keys().cloned().collect();
    for entry in fs::read_dir(dir)? {
        stems.extend(stem(&entry?.file_name()));
    }
    let mut found = BTreeMap::new();
    for stem in stems {
        let own = PathBuf::from(with_ending(&stem, "wasm"));
        let manifest = look(&dir.join(with_ending(&stem, "toml")));
        let named = known.get(&stem).cloned().flatten().filter(|_| manifest.is_some());
        let component_path = named.unwrap_or(own);
        let component = look(&dir.join(&component_path));
        if manifest.is_some() || component.is_some() {
            found.insert(stem, Sight { manifest, component_path, component });
        }
    }
    Ok(found)
}

/// `NAME` of `NAME.wasm` and `NAME.toml`; `None` for any other name and for hidden files. So names that end in `~`,
/// `.tmp`, `.part`, `.swp` or `.crdownload` are nobody's.
fn stem(name: &OsStr) -> Option<OsString> {
    let path = Path::new(name);
    let ending = path.extension()?;
    let hidden = name.as_encoded_bytes().starts_with(b".");
    ((ending == "wasm" || ending == "toml") && !hidden).then(|| path.file_stem().map(OsStr::to_owned)).flatten()
}

/// `NAME.ending`
pub(super) fn with_ending(stem: &OsStr, ending: &str) -> OsString {
    let mut name = stem.to_owned();
    name.push(".");
    name.push(ending);
    name
}

/// What is at a path; `None` for nothing and for a directory.
pub(super) fn look(path: &Path) -> Option<Seen> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Some(Seen::File(Stamp::of(&meta))),
        Ok(meta) if meta.is_dir() => None,
        Ok(meta) => Some(Seen::Unusable(format!("is {}, not a file", kind(meta.file_type())))),
        // Nothing there, or a link to nothing.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let dangling = fs::symlink_metadata(path).is_ok();
            dangling.then(|| Seen::Unusable("is a link to a file that does not exist".to_owned()))
        }
        Err(error) => Some(Seen::Unusable(format!("cannot be looked at: {error}"))),
    }
}

fn kind(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn only_wasm_and_toml_give_bots() {
        for (name, expected) in [
            ("echo.wasm", Some("echo")),
            ("a.b.toml", Some("a.b")),
            (".echo.wasm", None),
            ("..data", None),
            (".wasm", None),
            ("..wasm", None),
            ("echo.wasm~", None),
            ("echo.wasm.tmp", None),
            ("echo.wasm.part", None),
            ("echo.wasm.crdownload", None),
            (".echo.wasm.swp", None),
            ("wasm", None),
            ("echo.WASM", None),
        ] {
            assert_eq!(stem(OsStr::new(name)), expected.map(OsString::from), "{name}");
        }
    }

    #[test]
    fn an_age_is_a_distance() {
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(since((99, 500_000_000), now), Duration::from_millis(500));
        assert_eq!(since((101, 0), now), Duration::from_secs(1));
        assert_eq!(since((-1, 0), now), Duration::from_secs(101));
        assert!(since((i64::MAX, 0), now) > Duration::from_secs(1 << 40));
    }
}
