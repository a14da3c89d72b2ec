//! `chat.abort`: ends what is RUNNING in the session (guide, "chat.abort response").

use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::door::Admitted;
use super::{Inner, respond};
use crate::store::{Abort, AbortAnswer};
use crate::wire::{ApiError, BotRef, ErrorCode};

pub(super) async fn abort(inner: &Inner, request: Admitted, bot: BotRef) -> Result<Response, ApiError> {
    let key = request.key(&bot);
    let abort = Abort {
        id: request.envelope.id,
        fingerprint: request.envelope.fingerprint,
        key,
        reason: "user_cancelled".into(),
        now: request.now,
    };
    let aborted = |ids: &[String]| {
        respond::json(StatusCode::OK, &json!({"ok": true, "aborted": !ids.is_empty(), "aborted_run_ids": ids}))
    };
    match inner.runs.abort(abort).await? {
        AbortAnswer::Aborted(ids) => Ok(aborted(&ids)),
        AbortAnswer::Idle => Ok(aborted(&[])),
        AbortAnswer::Terminated => {
            Err(ApiError::new(ErrorCode::RunTerminated, "All runs of this session have ended already."))
        }
        AbortAnswer::Conflict(why) => Err(ApiError::new(ErrorCode::Conflict, why)),
    }
}
