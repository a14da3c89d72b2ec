//! What a component gets when it is only tried: nothing that lasts.

use std::sync::Arc;
use std::time::Duration;

use super::call::{
    Call, CancelToken, Conversation, ConversationFuture, EventSink, Export, Limits, PastMessage, RequestInfo,
};
use super::log::{BotLog, LogLine};
use crate::wire::{Event, Message, Role};

/// Wide, for the manifest that may give this bot more than the defaults is not known here.
pub(super) fn limits() -> Limits {
    Limits {
        memory_bytes: usize::MAX,
        table_elements: 10_000_000,
        cpu_time: Duration::from_secs(30),
        ..Limits::default()
    }
}

/// Drops all lines.
pub(super) fn log() -> Arc<dyn BotLog> {
    Arc::new(Nothing)
}

/// A call that is never made; the instance for it is.
pub(super) fn call() -> Call {
    Call {
        export: Export::Send,
        request: RequestInfo {
            id: "trial".into(),
            session: String::new(),
            group: String::new(),
            tags: Vec::new(),
            deadline: 0,
            extensions: None,
        },
        message: PastMessage {
            message: Message {
                role: Role::System,
                text: String::new(),
                author: None,
                attachments: Vec::new(),
                json: "{}".into(),
            },
            timestamp: 0,
        },
        conversation: Arc::new(Nothing),
        sink: Arc::new(Nothing),
        cancel: CancelToken::default(),
    }
}

struct Nothing;

impl BotLog for Nothing {
    fn line(&self, _: LogLine<'_>) {}
}

impl EventSink for Nothing {
    fn emit(&self, _: Event) {}
}

impl Conversation for Nothing {
    fn history(&self, _: usize, _: usize) -> ConversationFuture<'_, Vec<PastMessage>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn get(&self, _: String) -> ConversationFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { Ok(None) })
    }

    fn keys(&self, _: String) -> ConversationFuture<'_, Vec<(String, u64)>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
