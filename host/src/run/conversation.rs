//! A session as its bot sees it, on the store.

use std::sync::Arc;

use crate::bot::{Conversation, ConversationError, ConversationFuture, PastMessage};
use crate::store::{ContextQuery, Entry, Store, StoreError};
use crate::wire::SessionKey;

/// The session around one message.
pub(super) struct StoredConversation {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: SessionKey,
    /// The place of the message the bot works on.
    pub(super) message_at: u64,
}

/// A transcript's message as a bot gets it.
pub(super) fn past(entry: &Entry) -> Result<PastMessage, ConversationError> {
    let message = entry.message.parse().map_err(|e| ConversationError(e.message))?;
    Ok(PastMessage { message, timestamp: entry.at })
}

fn failed(error: StoreError) -> ConversationError {
    ConversationError(error.to_string())
}

impl Conversation for StoredConversation {
    fn history(&self, limit: usize, max_bytes: usize) -> ConversationFuture<'_, Vec<PastMessage>> {
        Box::pin(async move {
            let query = ContextQuery { key: self.key.clone(), message_at: self.message_at, limit, max_bytes };
            self.store.context(query).await.map_err(failed)?.iter().map(past).collect()
        })
    }

    fn get(&self, key: String) -> ConversationFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { self.store.state_get(self.key.clone(), key).await.map_err(failed) })
    }

    fn keys(&self, prefix: String) -> ConversationFuture<'_, Vec<(String, u64)>> {
        Box::pin(async move { self.store.state_keys(self.key.clone(), prefix).await.map_err(failed) })
    }
}
