//! Getting hold of the directory: made, locked, of a known format.

use std::fs::{DirBuilder, File, OpenOptions as FileOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use ::sled::Db;

use super::OpenOptions;
use super::engine::Engine;
use super::keys;
use super::records::FORMAT_VERSION;

/// sled's files are in this directory of ours, beside the lock.
const ENGINE_DIR: &str = "sled";
const LOCK_FILE: &str = "lock";

/// Why the store cannot be opened: a sentence that names the directory and says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(String);

impl OpenError {
    pub(super) fn thread(dir: &Path, error: &io::Error) -> Self {
        Self(format!("the thread for the data directory {dir:?} could not be started: {error}"))
    }

    /// The directory or its lock file cannot be used.
    pub(super) fn directory(dir: &Path, error: &io::Error) -> Self {
        Self(match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                format!("the data directory {dir:?} is not a directory: move away what stands there, or name another")
            }
            io::ErrorKind::PermissionDenied => format!(
                "the data directory {dir:?} may not be read and written by this user: change its owner or its \
                 permissions, or name another"
            ),
            io::ErrorKind::ReadOnlyFilesystem => format!(
                "the data directory {dir:?} is on a file system that is mounted read-only: mount it for writing, or \
                 name another"
            ),
            _ => format!("the data directory {dir:?} cannot be used: {error}"),
        })
    }

    fn in_use(dir: &Path) -> Self {
        Self(format!(
            "the data directory {dir:?} is in use by another avernest: stop that one first, or give this one a data \
             directory of its own"
        ))
    }

    fn engine(dir: &Path, error: &dyn std::fmt::Display) -> Self {
        Self(format!(
            "the data in {dir:?} cannot be opened ({error}): if the disk is sound, restore the directory from a \
             backup, or move it away to begin anew"
        ))
    }

    fn format(dir: &Path, found: &str) -> Self {
        Self(format!(
            "the data in {dir:?} has format version {found}, and this avernest knows versions up to \
             {FORMAT_VERSION}: use the avernest that wrote it, or a newer one"
        ))
    }
}

/// The directory's lock, held as long as this lives. The kernel drops it with the process, however that ends.
pub(super) struct DirLock(#[expect(dead_code, reason = "held for its lock")] File);

/// Opens the engine.
pub(super) fn engine(options: &OpenOptions) -> Result<Engine, OpenError> {
    let dir = options.dir.as_path();
    let lock = lock(dir).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::in_use(dir),
        _ => OpenError::directory(dir, &error),
    })?;
    // sled panics on some damage. It does not say so in its errors, only here.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let db =
            open_sled(&dir.join(ENGINE_DIR), options.cache_bytes).map_err(|error| OpenError::engine(dir, &error))?;
        check_format(&db, dir)?;
        sync_new(dir).map_err(|error| OpenError::directory(dir, &error))?;
        let file = File::open(dir.join(ENGINE_DIR).join("db")).map_err(|error| OpenError::directory(dir, &error))?;
        Engine::new(db, file, lock, dir.to_owned()).map_err(|error| OpenError::engine(dir, &error))
    }));
    opened.unwrap_or_else(|_| Err(OpenError::engine(dir, &"the engine stopped on it, see the message above")))
}

/// How long a lock that is held is tried again.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Makes the directory, and takes its lock.
fn lock(dir: &Path) -> io::Result<DirLock> {
    DirBuilder::new().mode(0o700).recursive(true).create(dir.join(ENGINE_DIR))?;
    // Listing it shows what opening a file in it does not: that it cannot be read.
    std::fs::read_dir(dir)?;
    let mut options = FileOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(dir.join(LOCK_FILE))?;
    // A process that has just ended, or a child on its way between fork and exec, may still hold it for a moment.
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < patience => std::thread::sleep(LOCK_PAUSE),
            locked => {
                locked?;
                return Ok(DirLock(file));
            }
        }
    }
}

fn open_sled(dir: &Path, cache_bytes: u64) -> Result<Db, ::sled::Error> {
    let config =
        ::sled::Config::new().path(dir).cache_capacity(cache_bytes).flush_every_ms(None).use_compression(false);
    // sled has a lock of its own, which the background threads of a store closed a moment ago may still hold.
    // It can only be ours: we have the directory's.
    let patience = Instant::now() + Duration::from_secs(5);
    loop {
        match config.open() {
            Err(::sled::Error::Io(error))
                if error.to_string().contains("could not acquire lock") && Instant::now() < patience =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened,
        }
    }
}

/// Checks the format's version, and writes it to a new database.
fn check_format(db: &Db, dir: &Path) -> Result<(), OpenError> {
    let failed = |error: ::sled::Error| OpenError::engine(dir, &error);
    let Some(value) = db.get(keys::FORMAT).map_err(failed)? else {
        if !db.is_empty() {
            return Err(OpenError::engine(dir, &"it was not written by avernest"));
        }
        db.insert(keys::FORMAT, FORMAT_VERSION.to_string().as_bytes()).map_err(failed)?;
        db.flush().map_err(failed)?;
        return Ok(());
    };
    let found = String::from_utf8_lossy(&value);
    match found.parse::<u32>() {
        Ok(version) if version <= FORMAT_VERSION => Ok(()),
        _ => Err(OpenError::format(dir, &found.escape_debug().to_string())),
    }
}

/// sled syncs neither its settings nor the directories that its files, and ours, are new in.
fn sync_new(dir: &Path) -> io::Result<()> {
    let inner = dir.join(ENGINE_DIR);
    for path in [inner.join("conf").as_path(), &inner.join("db"), &inner, dir] {
        File::open(path)?.sync_all()?;
    }
    // The parent may be one that we may pass through but not open; then its owner made this directory.
    let parent = dir.canonicalize().ok().and_then(|dir| File::open(dir.parent()?).ok());
    parent.map_or(Ok(()), |parent| parent.sync_all())
}
