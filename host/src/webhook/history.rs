//! `chat.history`: a page of the session's transcript (reference, section 3.2).

use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::door::Admitted;
use super::{Inner, respond};
use crate::run::store_refusal;
use crate::store::HistoryQuery;
use crate::wire::{ApiError, BotRef};

const DEFAULT_LIMIT: u64 = 50;
const MAX_LIMIT: u64 = 1000;
/// A page ends early past this many bytes of messages; `has_more` says so.
const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

pub(super) async fn history(inner: &Inner, request: Admitted, bot: BotRef) -> Result<Response, ApiError> {
    let key = request.key(&bot);
    let envelope = &request.envelope;
    let limit = envelope.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let query = HistoryQuery {
        key,
        before: envelope.before,
        after: envelope.after,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        max_bytes: MAX_PAGE_BYTES,
    };
    let forward = envelope.after.is_some();
    let page = inner.runs.store().history(query).await.map_err(|e| store_refusal(&e))?;
    let mut entries = page.entries;
    if !forward {
        // Towards the past the newest comes first, as the server's own reference provider has it.
        entries.reverse();
    }
    let messages: Vec<_> = entries.iter().map(|e| e.message.to_history(&e.id, e.at)).collect();
    let mut answer = json!({
        "ok": true,
        "session_id": envelope.session_id,
        "messages": messages,
        "has_more": page.has_more,
    });
    if page.has_more
        && let Some(last) = entries.last()
    {
        answer[if forward { "next_after" } else { "next_before" }] = last.at.into();
    }
    Ok(respond::json(StatusCode::OK, &answer))
}
