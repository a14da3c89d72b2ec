//! `bot.ping`: whether this provider, or one bot of it, is ready.

use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::door::Admitted;
use super::{Inner, respond};
use crate::wire::{ApiError, BotRef, ErrorCode};

pub(super) fn ping(inner: &Inner, request: &Admitted) -> Result<Response, ApiError> {
    let Some(name) = request.envelope.bot.as_deref() else {
        let answer = json!({
            "ok": true,
            "running": inner.runs.running(),
            "bots": inner.bots.statuses(),
            "problems": inner.bots.problems(),
        });
        return Ok(respond::json(StatusCode::OK, &answer));
    };
    let bot =
        BotRef::parse(name).map_err(|e| ApiError::invalid(format!("The field `to_bot.provider_bot_ref`: {e}.")))?;
    let status = inner.bots.status(&bot).ok_or_else(|| {
        ApiError::new(
            ErrorCode::BotNotFound,
            format!("The field `to_bot.provider_bot_ref`: there is no bot {bot} in the plugins folder."),
        )
    })?;
    Ok(respond::json(StatusCode::OK, &json!({"ok": true, "bot": status})))
}
