//! How a record stands in the tree: whole, or in pieces when it is large.
//!
//! A record of more than [`PIECE`] bytes is cut into pieces under keys of their own. sled writes a page of more than
//! 128 KiB to a file of its own, and neither syncs that file on flush nor minds on recovery if it is missing
//! (`blob_io.rs`, `iterator.rs`: a "dangling blob" is passed over). After a power cut a message that was
//! acknowledged would be gone. A page has up to 16 records before it splits, a few more after a merge, so with
//! pieces this small no page gets there. Measured: 5 MB are durable in 30 ms, 32 MB in 170 ms.

use ::sled::{Batch, IVec, Tree};

use super::view::{Staged, Write, failed};
use super::{keys, records};
use crate::store::StoreError;

/// The largest value in the tree, in bytes, but for a mark of one byte.
const PIECE: usize = 6_000;

/// Marks a value that is the record.
const WHOLE: u8 = 0;
/// Marks a value that is the length of a record in pieces.
const PIECES: u8 = 1;

/// The record, from the value that stands at its key.
pub(super) fn assemble(tree: &Tree, key: &[u8], value: &[u8]) -> Result<Vec<u8>, StoreError> {
    let Some(len) = len(key, value)? else {
        return Ok(value.get(1..).unwrap_or_default().to_vec());
    };
    // Grown piece by piece: a damaged length must not make it ask for all the memory there is.
    let mut bytes = Vec::new();
    for number in 0..count(len) {
        let piece = tree.get(keys::chunk(key, number)).map_err(|e| failed(&e))?;
        bytes.extend_from_slice(&piece.ok_or_else(|| records::damaged(key, "lacks a piece"))?);
    }
    if u64::try_from(bytes.len()) == Ok(len) { Ok(bytes) } else { Err(records::damaged(key, "has a wrong length")) }
}

/// Records as one batch for the tree, with the pieces that come and those that go.
pub(super) fn batch(tree: &Tree, staged: Staged) -> Result<Batch, StoreError> {
    let mut batch = Batch::default();
    for (key, Write { record, new }) in staged {
        let old = if new { None } else { tree.get(&key).map_err(|e| failed(&e))? };
        let before = match old {
            // One whose mark cannot be read has no pieces that could be found.
            Some(value) => len(&key, &value).ok().flatten().map_or(0, count),
            None => 0,
        };
        let mut kept = 0;
        match record {
            None => batch.remove(key.as_slice()),
            Some(bytes) if bytes.len() <= PIECE => batch.insert(key.as_slice(), marked(WHOLE, &bytes)),
            Some(bytes) => {
                for (number, piece) in (0u32..).zip(bytes.chunks(PIECE)) {
                    batch.insert(keys::chunk(&key, number), piece);
                    kept = number + 1;
                }
                batch.insert(key.as_slice(), marked(PIECES, &(bytes.len() as u64).to_be_bytes()));
            }
        }
        for number in kept..before {
            batch.remove(keys::chunk(&key, number));
        }
    }
    Ok(batch)
}

fn marked(mark: u8, bytes: &[u8]) -> IVec {
    let mut value = Vec::with_capacity(bytes.len() + 1);
    value.push(mark);
    value.extend_from_slice(bytes);
    value.into()
}

/// The record's length if it is in pieces, `None` if it is whole.
fn len(key: &[u8], value: &[u8]) -> Result<Option<u64>, StoreError> {
    match value.split_first() {
        Some((&WHOLE, _)) => Ok(None),
        Some((&PIECES, len)) if len.len() == 8 => Ok(len.first_chunk().map(|len| u64::from_be_bytes(*len))),
        _ => Err(records::damaged(key, "has no known mark")),
    }
}

fn count(len: u64) -> u32 {
    u32::try_from(len.div_ceil(PIECE as u64)).unwrap_or(u32::MAX)
}
