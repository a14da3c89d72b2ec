//! Reading: the tree, and over it what was written since the last batch.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;

use ::sled::{IVec, Tree};
use serde::de::DeserializeOwned;

use super::{pieces, records};
use crate::store::StoreError;

/// Records by key that are to be written.
pub(super) type Staged = BTreeMap<Vec<u8>, Write>;

/// What a record is to be.
pub(super) struct Write {
    /// The record; `None` to remove it.
    pub(super) record: Option<Vec<u8>>,
    /// Whether the tree has nothing at this key, so that nobody needs to look for pieces of an older record.
    pub(super) new: bool,
}

/// Puts a write over what was to be written before.
pub(super) fn stage(staged: &mut Staged, key: Vec<u8>, mut write: Write) {
    if let Some(before) = staged.get(&key) {
        write.new = before.new;
    }
    if write.new && write.record.is_none() {
        staged.remove(&key);
    } else {
        staged.insert(key, write);
    }
}

/// What there is to be read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) tree: &'a Tree,
    pub(super) staged: &'a Staged,
}

/// What [`sled`](::sled) says, in our words.
pub(super) fn failed(error: &::sled::Error) -> StoreError {
    StoreError::Failed(format!("the engine could not read its files: {error}"))
}

impl<'a> View<'a> {
    /// The record's bytes.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(staged) = self.staged.get(key) {
            return Ok(staged.record.clone());
        }
        match self.tree.get(key).map_err(|e| failed(&e))? {
            None => Ok(None),
            Some(value) => pieces::assemble(self.tree, key, &value).map(Some),
        }
    }

    /// Whether there is a record, readable or not.
    pub(super) fn has(&self, key: &[u8]) -> Result<bool, StoreError> {
        match self.staged.get(key) {
            Some(staged) => Ok(staged.record.is_some()),
            None => self.tree.contains_key(key).map_err(|e| failed(&e)),
        }
    }

    /// A record kept as JSON.
    pub(super) fn read<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        self.get(key)?.map(|bytes| records::decode(key, &bytes)).transpose()
    }

    /// All records whose keys begin with this byte, in order.
    pub(super) fn of_kind(&self, kind: u8) -> Scan<'a> {
        self.range(vec![kind], vec![kind.saturating_add(1)], false)
    }

    /// The records with keys from `start` on and before `end`, in order or against it.
    pub(super) fn range(&self, start: Vec<u8>, end: Vec<u8>, backward: bool) -> Scan<'a> {
        let end = end.max(start.clone());
        let (tree, staged) = (self.tree.range(start.clone()..end.clone()), self.staged.range(start..end));
        let (tree, staged): (TreeIter<'a>, StagedIter<'a>) =
            if backward { (Box::new(tree.rev()), Box::new(staged.rev())) } else { (Box::new(tree), Box::new(staged)) };
        Scan { tree: tree.peekable(), staged: staged.peekable(), backward }
    }

    /// The record of a key that a scan gave.
    pub(super) fn load(&self, found: &Found<'a>) -> Result<Cow<'a, [u8]>, StoreError> {
        match &found.value {
            Value::Staged(bytes) => Ok(Cow::Borrowed(bytes)),
            Value::Tree(value) => pieces::assemble(self.tree, &found.key, value).map(Cow::Owned),
        }
    }

    /// The record of a key that a scan gave, kept as JSON.
    pub(super) fn decode<T: DeserializeOwned>(&self, found: &Found<'a>) -> Result<T, StoreError> {
        records::decode(&found.key, &self.load(found)?)
    }

    /// The record of a key that a scan gave, kept as text.
    pub(super) fn text(&self, found: &Found<'a>) -> Result<String, StoreError> {
        String::from_utf8(self.load(found)?.into_owned()).map_err(|_| records::damaged(&found.key, "is not UTF-8"))
    }
}

type TreeIter<'a> = Box<dyn Iterator<Item = ::sled::Result<(IVec, IVec)>> + 'a>;
type StagedIter<'a> = Box<dyn Iterator<Item = (&'a Vec<u8>, &'a Write)> + 'a>;

/// A key with its record, not yet loaded.
pub(super) struct Found<'a> {
    pub(super) key: IVec,
    value: Value<'a>,
}

enum Value<'a> {
    Tree(IVec),
    Staged(&'a [u8]),
}

/// Keys in order, of the tree and of what is staged; what is staged counts.
pub(super) struct Scan<'a> {
    tree: Peekable<TreeIter<'a>>,
    staged: Peekable<StagedIter<'a>>,
    backward: bool,
}

impl<'a> Iterator for Scan<'a> {
    type Item = Result<Found<'a>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.tree.peek(), self.staged.peek()) {
                (None, None) => return None,
                (Some(_), None) | (Some(Err(_)), Some(_)) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok((in_tree, _))), Some((in_staged, _))) => {
                    let order = in_tree.as_ref().cmp(in_staged.as_slice());
                    if self.backward { order.reverse() } else { order }
                }
            };
            if order == Ordering::Less {
                let found = self.tree.next()?;
                return Some(
                    found.map(|(key, value)| Found { key, value: Value::Tree(value) }).map_err(|e| failed(&e)),
                );
            }
            if order == Ordering::Equal {
                self.tree.next();
            }
            if let (key, Write { record: Some(bytes), .. }) = self.staged.next()? {
                return Some(Ok(Found { key: key.as_slice().into(), value: Value::Staged(bytes) }));
            }
        }
    }
}
