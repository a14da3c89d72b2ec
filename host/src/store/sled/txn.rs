//! One operation: it sees its own writes, and they are kept if it succeeds.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine::Counts;
use super::keys;
use super::records::{self, Head};
use super::view::{Staged, View, Write, stage};
use crate::store::StoreError;
use crate::wire::SessionKey;

/// An operation under way.
pub(super) struct Txn<'a> {
    /// What there was before it: what is scanned.
    pub(super) view: View<'a>,
    pub(super) counts: Counts,
    /// The next place in the order of admission.
    pub(super) next_order: u64,
    writes: Staged,
}

impl<'a> Txn<'a> {
    pub(super) fn new(view: View<'a>, counts: Counts, next_order: u64) -> Self {
        Self { view, counts, next_order, writes: Staged::new() }
    }

    pub(super) fn put(&mut self, key: Vec<u8>, bytes: Vec<u8>) {
        stage(&mut self.writes, key, Write { record: Some(bytes), new: false });
    }

    /// Keeps a record at a key that is known to have none.
    pub(super) fn put_new(&mut self, key: Vec<u8>, bytes: Vec<u8>) {
        stage(&mut self.writes, key, Write { record: Some(bytes), new: true });
    }

    pub(super) fn delete(&mut self, key: Vec<u8>) {
        stage(&mut self.writes, key, Write { record: None, new: false });
    }

    /// A record kept as JSON.
    pub(super) fn read<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        match self.writes.get(key) {
            Some(Write { record: Some(bytes), .. }) => records::decode(key, bytes).map(Some),
            Some(Write { record: None, .. }) => Ok(None),
            None => self.view.read(key),
        }
    }

    /// Keeps a record as JSON.
    pub(super) fn write<T: Serialize>(&mut self, key: Vec<u8>, record: &T) -> Result<(), StoreError> {
        let bytes = records::encode(&key, record)?;
        self.put(key, bytes);
        Ok(())
    }

    /// Keeps a record as JSON at a key that is known to have none.
    pub(super) fn write_new<T: Serialize>(&mut self, key: Vec<u8>, record: &T) -> Result<(), StoreError> {
        let bytes = records::encode(&key, record)?;
        self.put_new(key, bytes);
        Ok(())
    }

    /// The session's head; a fresh one if there is none.
    pub(super) fn head(&self, session: &SessionKey) -> Result<Head, StoreError> {
        Ok(self.read(&keys::head(session))?.unwrap_or_else(|| Head::new(session)))
    }

    pub(super) fn put_head(&mut self, head: &Head) -> Result<(), StoreError> {
        self.write(keys::head(&head.key), head)
    }

    /// What was written.
    pub(super) fn into_writes(self) -> Staged {
        self.writes
    }
}
