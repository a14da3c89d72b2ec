//! `interaction.resolve`: no bot of this version asks a person anything, so no interaction is known.

use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::door::Admitted;
use super::respond;

pub(super) fn resolve(_request: &Admitted) -> Response {
    // `error` must be a text under 200, and `retryable: false` takes the question off the person's screen
    // (reference, sections 3.1 and 3.6).
    let answer = json!({
        "ok": false,
        "retryable": false,
        "error": "There is no open interaction of this id: its run has ended, or it never was.",
    });
    respond::json(StatusCode::OK, &answer)
}
