//! One log file: whole lines appended, rotated once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::wire::BotRef;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 * 1024;
/// The longest reference that is a file name as it is; file systems allow 255 bytes with the endings.
const MAX_NAME: usize = 200;

/// The name of a bot's log: its reference, but for one that is too long or would be a hidden file. `@` is in no
/// reference, so these are nobody else's name.
pub(super) fn file_name(bot: &BotRef) -> String {
    let name = bot.as_str();
    if !name.starts_with('.') && name.len() <= MAX_NAME {
        return format!("{name}.jsonl");
    }
    let digest: String = Sha256::digest(name.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let start: String = name.trim_start_matches('.').chars().take(MAX_NAME - 40).collect();
    format!("{start}@{digest}.jsonl")
}

/// An open log.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes in the file, whole lines only.
    len: u64,
    /// Lines that are not in the file yet.
    buffer: Vec<u8>,
    /// How many lines these stand for.
    buffered: u64,
}

impl LogFile {
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        let mut len = file.metadata()?.len();
        if len > 0 {
            // A line cut off by a crash is ended, so that it spoils none but itself.
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                len += 1;
            }
        }
        Ok(Self { path, file, len, buffer: Vec::new(), buffered: 0 })
    }

    /// Adds a line (with its newline) that stands for `lines` lines; it is written by [`LogFile::flush`]. After an
    /// error it is there all the same.
    pub(super) fn add(&mut self, line: &[u8], lines: u64, max_bytes: u64) -> Result<(), Lost> {
        let waiting = self.len + self.buffer.len() as u64;
        let full = waiting > 0 && waiting + line.len() as u64 > max_bytes;
        let result = if full {
            self.flush().and_then(|_| self.rotate().map_err(|error| Lost { lines: 0, error }))
        } else {
            Ok(())
        };
        self.buffer.extend_from_slice(line);
        self.buffered += lines;
        result
    }

    /// Whether enough is gathered to be written.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() >= BUFFER
    }

    /// Writes what is gathered; `true` if there was something.
    pub(super) fn flush(&mut self) -> Result<bool, Lost> {
        if self.buffer.is_empty() {
            return Ok(false);
        }
        let written = self.file.write_all(&self.buffer);
        let lines = std::mem::take(&mut self.buffered);
        let bytes = self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER);
        match written {
            Ok(()) => {
                self.len += bytes;
                Ok(true)
            }
            Err(error) => {
                // No half line stays behind, if it can be helped.
                let _ = self.file.set_len(self.len);
                Err(Lost { lines, error })
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        match fs::rename(&self.path, rotated(&self.path)) {
            // Someone else has moved it away already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
        *self = Self::open(self.path.clone())?;
        Ok(())
    }
}

/// Where a full log goes.
fn rotated(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Lines that could not be written.
pub(super) struct Lost {
    pub(super) lines: u64,
    pub(super) error: io::Error,
}
