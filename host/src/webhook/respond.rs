//! Answers as HTTP.

use axum::body::Body;
use axum::response::Response;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde_json::Value;

use crate::wire::ApiError;

/// A JSON answer.
pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    with_type(status, "application/json", Body::from(value.to_string()))
}

/// A JSON answer of `{"ok":true}` and the like, with a body of its own.
pub(super) fn json_body(body: Body) -> Response {
    with_type(StatusCode::OK, "application/json", body)
}

/// A streaming answer.
pub(super) fn event_stream(body: Body) -> Response {
    let mut response = with_type(StatusCode::OK, "text/event-stream; charset=utf-8", body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Whether an answer is a stream.
pub(super) fn is_stream(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// A few words for a probe.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response {
    with_type(status, "text/plain; charset=utf-8", Body::from(text))
}

/// A refusal in the guide's envelope.
pub(crate) fn refusal(error: &ApiError, allow: Option<&'static str>) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, &error.to_json());
    if let Some(ms) = error.retry_after_ms
        && let Ok(value) = HeaderValue::from_str(&ms.div_ceil(1_000).to_string())
    {
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    if let Some(allow) = allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    response
}

fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
