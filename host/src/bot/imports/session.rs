//! `avernest:bot/session`: the transcript, and the state with this call's own writes laid over it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::convert::{export_message, message_bytes};
use crate::bot::bindings::avernest::bot::session::Host;
use crate::bot::bindings::avernest::bot::types::Message;
use crate::bot::call::{Conversation, ConversationError};
use crate::bot::guest::GuestState;
use crate::bot::limits::LimitHit;
use crate::store::StateWrite;

/// The most messages of one `history`.
const HISTORY: u32 = 1_000;

/// The session as one call sees it.
pub(in crate::bot) struct SessionState {
    conversation: Arc<dyn Conversation>,
    /// The committed keys with their values' lengths, once they were needed.
    index: Option<BTreeMap<String, u64>>,
    writes: BTreeMap<String, Option<Vec<u8>>>,
    /// Keys and bytes with the writes, valid once there is an index.
    keys: usize,
    bytes: u64,
    /// The store's own words when it failed.
    failure: Option<ConversationError>,
}

impl SessionState {
    pub(in crate::bot) fn new(conversation: Arc<dyn Conversation>) -> Self {
        Self { conversation, index: None, writes: BTreeMap::new(), keys: 0, bytes: 0, failure: None }
    }

    /// The writes, in key order.
    pub(in crate::bot) fn take_writes(&mut self) -> Vec<StateWrite> {
        std::mem::take(&mut self.writes).into_iter().map(|(key, value)| StateWrite { key, value }).collect()
    }

    /// Why the store could not be read, if that ended the call.
    pub(in crate::bot) fn take_failure(&mut self) -> Option<ConversationError> {
        self.failure.take()
    }

    fn failed(&mut self, error: ConversationError) -> wasmtime::Error {
        self.failure = Some(error);
        wasmtime::Error::msg("the session could not be read")
    }

    async fn load_index(&mut self) -> wasmtime::Result<()> {
        if self.index.is_none() {
            let keys = self.conversation.keys(String::new()).await.map_err(|error| self.failed(error))?;
            self.keys = keys.len();
            self.bytes = keys.iter().map(|(key, bytes)| key.len() as u64 + bytes).sum();
            self.index = Some(keys.into_iter().collect());
        }
        Ok(())
    }

    /// The bytes that a key takes now, itself included; `None` if there is no such key.
    fn size_of(&self, key: &str) -> Option<u64> {
        let value = match self.writes.get(key) {
            Some(written) => written.as_ref().map(|value| value.len() as u64),
            None => self.index.as_ref().and_then(|index| index.get(key).copied()),
        };
        value.map(|bytes| bytes + key.len() as u64)
    }

    fn put(&mut self, key: String, value: Option<Vec<u8>>, before: Option<u64>, after: Option<u64>) {
        self.keys = self.keys + usize::from(after.is_some()) - usize::from(before.is_some());
        self.bytes = self.bytes + after.unwrap_or(0) - before.unwrap_or(0);
        let committed = self.index.as_ref().is_some_and(|index| index.contains_key(&key));
        if value.is_none() && !committed {
            // Nothing to delete for good: so a guest that sets and deletes for ever leaves nothing behind.
            self.writes.remove(&key);
        } else {
            self.writes.insert(key, value);
        }
    }

    fn keys_with(&self, prefix: &str) -> Vec<String> {
        let is_gone = |key: &String| matches!(self.writes.get(key), Some(None));
        let committed = self.index.iter().flat_map(BTreeMap::keys).filter(|key| !is_gone(key));
        let written = self.writes.iter().filter(|(_, value)| value.is_some()).map(|(key, _)| key);
        let mut keys: Vec<String> = committed.chain(written).filter(|key| key.starts_with(prefix)).cloned().collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Host for GuestState {
    async fn history(&mut self, limit: u32) -> wasmtime::Result<Vec<Message>> {
        let limit = limit.min(HISTORY) as usize;
        let max_bytes = self.limits.host_data_bytes;
        let read = self.session.conversation.history(limit, max_bytes).await;
        let messages = read.map_err(|error| self.session.failed(error))?;
        // The newest that fit, whatever the store counted.
        let mut left = max_bytes;
        let mut fitting: Vec<Message> = messages
            .into_iter()
            .rev()
            .take(limit)
            .map_while(|message| {
                left = left.checked_sub(message_bytes(&message))?;
                Some(export_message(message))
            })
            .collect();
        fitting.reverse();
        Ok(fitting)
    }

    async fn get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        let value = match self.session.writes.get(&key) {
            Some(written) => written.clone(),
            None => {
                let read = self.session.conversation.get(key).await;
                read.map_err(|error| self.session.failed(error))?
            }
        };
        self.check_host_data(value.as_ref().map_or(0, Vec::len))?;
        Ok(value)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<()> {
        let size = key.len().saturating_add(value.len());
        self.check_host_data(size)?;
        self.session.load_index().await?;
        let size = size as u64;
        let before = self.session.size_of(&key);
        let bytes = self.session.bytes - before.unwrap_or(0) + size;
        let keys = self.session.keys + usize::from(before.is_none());
        // A state that is over a lowered limit may still shrink.
        if bytes > self.limits.state_bytes as u64 && bytes > self.session.bytes {
            let what = format!("The session's state would come to {bytes} bytes");
            let hit = LimitHit::new(&what, self.limits.state_bytes, "bytes", "limits.state_kb");
            return Err(self.over(hit));
        }
        if keys > self.limits.state_keys && before.is_none() {
            let what = format!("The session's state would come to {keys} keys");
            let hit = LimitHit::new(&what, self.limits.state_keys, "keys", "limits.state_keys");
            return Err(self.over(hit));
        }
        self.session.put(key, Some(value), before, Some(size));
        Ok(())
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<()> {
        self.check_host_data(key.len())?;
        self.session.load_index().await?;
        if let Some(before) = self.session.size_of(&key) {
            self.session.put(key, None, Some(before), None);
        }
        Ok(())
    }

    async fn keys(&mut self, prefix: String) -> wasmtime::Result<Vec<String>> {
        self.session.load_index().await?;
        let keys = self.session.keys_with(&prefix);
        self.check_host_data(keys.iter().map(String::len).sum())?;
        Ok(keys)
    }
}

#[cfg(test)]
mod tests;
