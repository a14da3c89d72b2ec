//! `chat.inject`: into the transcript, without a reply. The bot's `inject` function is called afterwards.

use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::door::Admitted;
use super::{Inner, respond};
use crate::store::Injection;
use crate::wire::{ApiError, BotRef};

pub(super) async fn inject(inner: &Inner, request: Admitted, bot: BotRef) -> Result<Response, ApiError> {
    let key = request.key(&bot);
    let Admitted { envelope, now, .. } = request;
    let message = envelope.message.ok_or_else(|| ApiError::invalid("The field `message` is missing."))?;
    let injection = Injection {
        id: envelope.id,
        key,
        fingerprint: envelope.fingerprint,
        message,
        group: envelope.group_id,
        tags: envelope.tags,
        extensions: envelope.extensions,
        now,
        owe_hook: true,
    };
    inner.runs.inject(injection).await?;
    Ok(respond::json(StatusCode::OK, &json!({"ok": true})))
}
