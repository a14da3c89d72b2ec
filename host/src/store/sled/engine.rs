//! The database with what is derived from it: only ever touched by the storage thread.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ::sled::Db;

use super::open::DirLock;
use super::txn::Txn;
use super::view::{Staged, View, failed, stage};
use super::{keys, pieces, records};
use crate::store::{StoreError, StoreStats};

/// How many records there are of what is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) pending: u64,
    pub(super) running: u64,
    pub(super) outbox: u64,
    pub(super) dead: u64,
}

/// What the storage thread owns.
pub(super) struct Engine {
    // Before the lock: sled must be gone when the directory is free again.
    db: Db,
    _lock: DirLock,
    /// sled's own file, to sync it.
    file: File,
    dir: PathBuf,
    /// What the operations of this group have written. They become one batch, since sled writes and syncs once a batch.
    staged: Staged,
    staged_bytes: usize,
    counts: Counts,
    next_order: u64,
    /// Run → until when its callback is with somebody. In memory only: leases end with the process.
    pub(super) leases: HashMap<String, u64>,
    /// Whether something was written since the last flush.
    dirty: bool,
    /// Why nothing more is written.
    failure: Option<StoreError>,
}

/// A group that has written more than this is written in several batches, in bytes.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

impl Engine {
    /// Takes over an open database whose format is right.
    pub(super) fn new(db: Db, file: File, lock: DirLock, dir: PathBuf) -> Result<Self, StoreError> {
        let mut engine = Self {
            db,
            _lock: lock,
            file,
            dir,
            staged: Staged::new(),
            staged_bytes: 0,
            counts: Counts::default(),
            next_order: 0,
            leases: HashMap::new(),
            dirty: false,
            failure: None,
        };
        for kind in [keys::PENDING, keys::RUNNING] {
            for (order, _) in engine.in_order(kind)? {
                engine.next_order = engine.next_order.max(order.saturating_add(1));
            }
        }
        engine.counts = Counts {
            pending: engine.count(keys::PENDING)?,
            running: engine.count(keys::RUNNING)?,
            outbox: engine.count(keys::DUE)?,
            dead: engine.count(keys::DEAD)?,
        };
        Ok(engine)
    }

    /// The runs that are PENDING or RUNNING, with their places in the order of admission.
    pub(super) fn in_order(&self, kind: u8) -> Result<Vec<(u64, String)>, StoreError> {
        let view = self.view();
        let mut runs = Vec::new();
        for found in view.of_kind(kind) {
            let found = found?;
            match (keys::number(&found.key), view.text(&found)) {
                (Some(order), Ok(id)) => runs.push((order, id)),
                (_, Err(StoreError::Failed(what))) => return Err(StoreError::Failed(what)),
                _ => tracing::error!(record = ?keys::describe(&found.key), "a damaged record is passed over"),
            }
        }
        Ok(runs)
    }

    fn count(&self, kind: u8) -> Result<u64, StoreError> {
        self.view().of_kind(kind).try_fold(0, |count, found| found.map(|_| count + 1))
    }

    /// What there is to be read.
    pub(super) fn view(&self) -> View<'_> {
        View { tree: &self.db, staged: &self.staged }
    }

    /// Carries out an operation: all its writes are kept, or none if it fails.
    pub(super) fn change<T>(
        &mut self,
        operation: impl FnOnce(&mut Txn<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut txn = Txn::new(self.view(), self.counts, self.next_order);
        let answer = operation(&mut txn)?;
        let (counts, next_order) = (txn.counts, txn.next_order);
        for (key, write) in txn.into_writes() {
            self.staged_bytes += write.record.as_ref().map_or(0, Vec::len);
            stage(&mut self.staged, key, write);
        }
        (self.counts, self.next_order) = (counts, next_order);
        if self.staged_bytes > BATCH_BYTES {
            self.apply()?;
        }
        Ok(answer)
    }

    fn apply(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        self.dirty = true;
        self.staged_bytes = 0;
        let applied = pieces::batch(&self.db, std::mem::take(&mut self.staged))
            .and_then(|batch| self.db.apply_batch(batch).map_err(|e| StoreError::Failed(e.to_string())));
        applied.map_err(|error| self.fail(&error))
    }

    /// Makes durable what was written.
    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        self.apply()?;
        if !std::mem::take(&mut self.dirty) {
            return Ok(());
        }
        self.db.flush().map_err(|error| self.fail(&error))?;
        // sled only asks for `sync_file_range`, which leaves out the file's length and the disk's own cache.
        self.file.sync_data().map_err(|error| self.fail(&error))?;
        // A file that has been removed takes writes, and keeps none of them.
        match self.file.metadata() {
            Ok(metadata) if metadata.nlink() == 0 => Err(self.fail(&"the store's file has been removed")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Why nothing more is written, if that is so.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.failure.clone()
    }

    /// After a failed write or flush nobody knows what is on disk, so nothing may be built on it.
    fn fail(&mut self, error: &dyn std::fmt::Display) -> StoreError {
        let failure = StoreError::Failed(format!(
            "writing to {:?} failed ({error}); nothing is written any more: see to the disk, then start again",
            self.dir
        ));
        tracing::error!(error = %failure, "the data store has failed");
        self.failure.get_or_insert(failure).clone()
    }

    pub(super) fn artifact(&self, cache_key: &str) -> Result<Option<[u8; 32]>, StoreError> {
        let key = keys::artifact(cache_key);
        let bytes = self.view().get(&key)?;
        bytes
            .map(|bytes| <[u8; 32]>::try_from(bytes).map_err(|_| records::damaged(&key, "is not 32 bytes long")))
            .transpose()
    }

    pub(super) fn put_artifact(&mut self, cache_key: &str, digest: [u8; 32]) -> Result<(), StoreError> {
        self.change(|txn| {
            txn.put(keys::artifact(cache_key), digest.to_vec());
            Ok(())
        })
    }

    pub(super) fn stats(&self) -> Result<StoreStats, StoreError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let Counts { pending, running, outbox, dead } = self.counts;
        let disk_bytes = self.db.size_on_disk().map_err(|e| failed(&e))?;
        Ok(StoreStats { pending, running, outbox, dead, disk_bytes })
    }

    /// The database itself, for tests that damage it.
    #[cfg(test)]
    pub(super) fn db(&self) -> &Db {
        &self.db
    }
}
