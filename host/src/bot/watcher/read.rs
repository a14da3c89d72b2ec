//! Reading files that others may be writing.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::scan::{Seen, Sight, Stamp, look, with_ending};
use crate::bot::manifest::Manifest;
use crate::wire::BotRef;

/// The longest manifest that is read, in bytes.
const MAX_MANIFEST: u64 = 1024 * 1024;

/// What came of reading a file.
pub(super) enum Read {
    /// Its whole content, unchanged from before to after.
    Whole(Vec<u8>),
    /// It changed meanwhile, or is gone.
    Moved,
    /// It cannot be read; why, as the rest of a sentence that begins with its name.
    Failed(String),
}

/// Reads a file that was seen with this stamp.
pub(super) fn read_whole(path: &Path, stamp: &Stamp, max: u64) -> Read {
    // A file that became a pipe since it was seen must not block the open; for a file the flag means nothing.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Read::Moved,
        Err(error) => return Read::Failed(format!("cannot be read: {error}")),
    };
    match file.metadata() {
        Ok(meta) if meta.is_file() && Stamp::of(&meta) == *stamp => {}
        _ => return Read::Moved,
    }
    if stamp.len > max {
        return Read::Failed(format!("has {} bytes, but {max} is the most", stamp.len));
    }
    let mut content = Vec::with_capacity(usize::try_from(stamp.len).unwrap_or(0));
    if let Err(error) = file.by_ref().take(max.saturating_add(1)).read_to_end(&mut content) {
        return Read::Failed(format!("cannot be read: {error}"));
    }
    let unchanged = |meta: std::io::Result<fs::Metadata>| meta.is_ok_and(|meta| Stamp::of(&meta) == *stamp);
    if content.len() as u64 == stamp.len && unchanged(file.metadata()) && unchanged(fs::metadata(path)) {
        Read::Whole(content)
    } else {
        Read::Moved
    }
}

/// What a bot's files say before its component is read.
pub(super) enum Prepared {
    /// Not stable yet.
    Moved,
    /// The manifest names another component than the one that was watched; the sight has it now. It is not known to
    /// be stable.
    Elsewhere {
        /// The reference, if there is one.
        bot_ref: Option<BotRef>,
    },
    /// All is there.
    Ready { bot_ref: BotRef, manifest: Arc<Manifest> },
    /// It cannot be served.
    Refused(Refusal),
}

/// Why a bot's files are not served.
pub(super) struct Refusal {
    /// The reference, if its manifest could be read.
    pub(super) bot_ref: Option<BotRef>,
    /// A sentence.
    pub(super) message: String,
    /// Whether a file that is still being written may look like this.
    pub(super) maybe_unfinished: bool,
    /// The component is gone, so an older build does not go on serving.
    pub(super) gone: bool,
}

impl Refusal {
    /// One that is certain, and leaves an older build serving.
    fn plain(bot_ref: Option<BotRef>, message: String) -> Prepared {
        Prepared::Refused(Self { bot_ref, message, maybe_unfinished: false, gone: false })
    }
}

/// Reads the manifest, if there is one, and checks that the component is there. If that is another one than `sight`
/// has, it is put in there.
pub(super) fn prepare(dir: &Path, stem: &OsStr, sight: &mut Sight, settle: Duration) -> Prepared {
    let manifest_name = with_ending(stem, "toml");
    let manifest = match &sight.manifest {
        None => Manifest::default(),
        Some(Seen::Unusable(why)) => {
            return Refusal::plain(None, format!("{} {why}.", manifest_name.display()));
        }
        Some(Seen::File(stamp)) => {
            let name = manifest_name.display().to_string();
            let text = match read_whole(&dir.join(&manifest_name), stamp, MAX_MANIFEST) {
                Read::Moved => return Prepared::Moved,
                Read::Failed(why) => return Refusal::plain(None, format!("{name} {why}.")),
                Read::Whole(text) => text,
            };
            let manifest = match String::from_utf8(text) {
                Ok(text) => Manifest::parse(&name, &text).map_err(|error| error.to_string()),
                Err(_) => Err(format!("{name} is not UTF-8 text.")),
            };
            match manifest {
                Ok(manifest) => manifest,
                Err(message) => {
                    let refusal = Refusal { bot_ref: None, message, maybe_unfinished: true, gone: false };
                    return Prepared::Refused(refusal);
                }
            }
        }
    };
    let own = with_ending(stem, "wasm");
    let component = manifest.component.clone().unwrap_or_else(|| own.clone().into());
    let by_name = || stem.to_str().and_then(|stem| BotRef::parse(stem).ok());
    let bot_ref = manifest.bot_ref.clone().or_else(by_name);
    if component != sight.component_path {
        sight.component = look(&dir.join(&component));
        sight.component_path.clone_from(&component);
        let stamp = sight.component.as_ref().and_then(Seen::stamp);
        if stamp.is_some_and(|stamp| stamp.quiet(SystemTime::now()) <= settle) {
            return Prepared::Elsewhere { bot_ref };
        }
    }
    let Some(bot_ref) = bot_ref else {
        let (own, manifest) = (own.display(), manifest_name.display());
        let message = format!(
            "{own} gives no bot reference: one has 1 to 256 characters out of A-Z a-z 0-9 - _ . : and nothing else; \
             rename the file, or set `ref` in {manifest}."
        );
        return Refusal::plain(None, message);
    };
    match &sight.component {
        Some(Seen::File(_)) => Prepared::Ready { bot_ref, manifest: Arc::new(manifest) },
        Some(Seen::Unusable(why)) => Refusal::plain(Some(bot_ref), format!("{} {why}.", component.display())),
        None => {
            let message = format!(
                "{} needs the component {}, which is not in the plugins folder; put it there, or set `component`.",
                manifest_name.display(),
                component.display()
            );
            Prepared::Refused(Refusal { bot_ref: Some(bot_ref), message, maybe_unfinished: true, gone: true })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn stamp(path: &Path) -> Stamp {
        Stamp::of(&fs::metadata(path).unwrap())
    }

    #[test]
    fn a_file_is_read_only_as_it_was_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wasm");
        fs::write(&path, "one").unwrap();
        let seen = stamp(&path);
        assert!(matches!(read_whole(&path, &seen, 3), Read::Whole(content) if content == b"one"));
        assert!(matches!(read_whole(&path, &seen, 2), Read::Failed(why) if why == "has 3 bytes, but 2 is the most"));
        fs::write(&path, "three").unwrap();
        assert!(matches!(read_whole(&path, &seen, 100), Read::Moved));
        fs::remove_file(&path).unwrap();
        assert!(matches!(read_whole(&path, &seen, 100), Read::Moved));
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert!(matches!(read_whole(&path, &seen, 100), Read::Moved), "and it did not block");
    }

    #[test]
    fn a_read_error_is_a_sentence() {
        // Opens, and gives an error at its first byte: no process has memory at address 0.
        let path = Path::new("/proc/self/mem");
        assert!(
            matches!(read_whole(path, &stamp(path), 100), Read::Failed(why) if why.starts_with("cannot be read: "))
        );
    }
}
