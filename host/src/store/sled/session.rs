//! A session's transcript and state.

use super::engine::Engine;
use super::keys;
use super::records::{Head, StateName};
use super::txn::Txn;
use super::view::{Found, Scan, View};
use crate::store::{ContextQuery, Entry, EntryKind, HistoryPage, HistoryQuery, StateWrite, StoreError};
use crate::wire::SessionKey;
use crate::wire::message::RawMessage;

/// A message as `chat.send` and a reply have it; its place is settled by [`append`].
pub(super) fn message(id: String, kind: EntryKind, message: RawMessage) -> Entry {
    Entry { at: 0, id, kind, message, group: String::new(), tags: Vec::new(), extensions: None }
}

/// Appends a message; the caller puts the head. Gives its place: now, or just after the last one, so that no two
/// have the same and a page can begin exactly at one.
pub(super) fn append(txn: &mut Txn<'_>, head: &mut Head, now: u64, mut entry: Entry) -> Result<u64, StoreError> {
    entry.at = now.max(head.last_at.saturating_add(1));
    head.last_at = entry.at;
    txn.write_new(keys::entry(&head.key, entry.at, entry.kind), &entry)?;
    Ok(entry.at)
}

/// Applies state writes in their order.
pub(super) fn write_state(txn: &mut Txn<'_>, session: &SessionKey, writes: Vec<StateWrite>) -> Result<(), StoreError> {
    for StateWrite { key: name, value } in writes {
        let (name_key, value_key) = (keys::state_name(session, &name), keys::state_value(session, &name));
        match value {
            Some(value) => {
                txn.write(name_key, &StateName { name, len: value.len() as u64 })?;
                txn.put(value_key, value);
            }
            None => {
                txn.delete(name_key);
                txn.delete(value_key);
            }
        }
    }
    Ok(())
}

/// The bytes of a message that a query's bound is about.
fn size(entry: &Entry) -> usize {
    let RawMessage { message, from, attachments } = &entry.message;
    let optional = [from, attachments].into_iter().flatten().map(|text| text.get().len()).sum::<usize>();
    message.get().len().saturating_add(optional)
}

impl Engine {
    pub(super) fn injected(&self, session: &SessionKey, at: u64) -> Result<Option<Entry>, StoreError> {
        self.view().read(&keys::entry(session, at, EntryKind::Injected))
    }

    pub(super) fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
        let view = self.view();
        let from = query.after.map_or(0, |after| after.saturating_add(1));
        let mut page = HistoryPage { entries: Vec::new(), has_more: false };
        let mut bytes = 0usize;
        let backward = query.after.is_none();
        for found in messages(view, &query.key, from, query.before, backward) {
            let found = found?;
            if page.entries.len() >= query.limit {
                page.has_more = true;
                break;
            }
            let Some(entry) = entry(view, &found)? else { continue };
            bytes = bytes.saturating_add(size(&entry));
            if bytes > query.max_bytes && !page.entries.is_empty() {
                page.has_more = true;
                break;
            }
            page.entries.push(entry);
        }
        if backward {
            page.entries.reverse();
        }
        Ok(page)
    }

    pub(super) fn context(&self, query: &ContextQuery) -> Result<Vec<Entry>, StoreError> {
        let view = self.view();
        let (mut entries, mut bytes) = (Vec::new(), 0usize);
        for found in messages(view, &query.key, 0, None, true) {
            if entries.len() >= query.limit {
                break;
            }
            let found = found?;
            let visible = match keys::entry_parts(&found.key) {
                Some((at, kind)) => at < query.message_at || (at > query.message_at && kind != EntryKind::Sent),
                None => true,
            };
            if !visible {
                continue;
            }
            let Some(entry) = entry(view, &found)? else { continue };
            bytes = bytes.saturating_add(size(&entry));
            if bytes > query.max_bytes {
                break;
            }
            entries.push(entry);
        }
        entries.reverse();
        Ok(entries)
    }

    pub(super) fn state_get(&self, session: &SessionKey, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.view().get(&keys::state_value(session, name))
    }

    pub(super) fn state_keys(&self, session: &SessionKey, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let view = self.view();
        let start = keys::state_names(session);
        // What follows the session is 0 or 1.
        let end = [start.as_slice(), &[u8::MAX]].concat();
        let mut names = Vec::new();
        for found in view.range(start, end, false) {
            let StateName { name, len } = view.decode(&found?)?;
            if name.starts_with(prefix) {
                names.push((name, len));
            }
        }
        // Long names stand under their digest, so the tree's order is not theirs.
        names.sort_unstable();
        Ok(names)
    }
}

/// A session's messages from `from` on, up to but without `before`.
fn messages<'a>(view: View<'a>, session: &SessionKey, from: u64, before: Option<u64>, backward: bool) -> Scan<'a> {
    let mut end = keys::entry_from(session, before.unwrap_or(u64::MAX));
    if before.is_none() {
        end.push(u8::MAX);
    }
    view.range(keys::entry_from(session, from), end, backward)
}

/// A message of the transcript; one that is damaged is passed over, so that the others stay readable.
fn entry<'a>(view: View<'a>, found: &Found<'a>) -> Result<Option<Entry>, StoreError> {
    match view.decode(found) {
        Ok(entry) => Ok(Some(entry)),
        Err(StoreError::Damaged(what)) => {
            tracing::error!(record = ?what, "a transcript is read without a damaged record");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
