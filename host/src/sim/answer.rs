//! Reading the Provider's JSON answers as strictly as the server does (reference, sections 1.4, 3.1 and 3.5).

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use serde_json::{Map, Value};

use super::Bcs;
use super::envelope::{ErrorEnvelope, read_envelope};
use super::error::SimError;
use super::post::Sent;
use super::violation::{Notes, ViolationKind};

/// What is known of every answer.
#[derive(Debug, Clone)]
pub struct Meta {
    /// The id of the request.
    pub id: String,
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The HTTP version it came over.
    pub http: http::Version,
    /// From the start of sending to the headers.
    pub headers_after: Duration,
    /// From the start of sending to the end of the body; for an event stream, to the headers.
    pub elapsed: Duration,
}

/// A request that the Provider refused.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Status, headers and times.
    pub meta: Meta,
    /// The guide's error envelope, as far as the body is one.
    pub error: ErrorEnvelope,
    /// `retryable`: of the envelope, or beside `ok:false` under 2xx.
    pub retryable: Option<bool>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The body.
    pub body: Bytes,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it was refused with HTTP {} {:?}: {:?}", self.meta.status, self.error.code, self.error.message)
    }
}

/// An answer as the server takes it.
#[derive(Debug)]
pub enum Reply<T> {
    /// The Provider has accepted the request.
    Accepted(T),
    /// The Provider has refused it.
    Refused(Refusal),
    /// The answer cannot be decoded: the server does not know what became of the request. A violation says why.
    Undecodable {
        /// Status, headers and times.
        meta: Meta,
        /// Why.
        why: String,
    },
}

impl<T> Reply<T> {
    /// The accepted answer.
    ///
    /// # Errors
    /// [`SimError::Unexpected`] with what came instead.
    pub fn accepted(self) -> Result<T, SimError> {
        match self {
            Self::Accepted(answer) => Ok(answer),
            Self::Refused(refusal) => {
                Err(SimError::Unexpected { wanted: "the request to be accepted", got: refusal.to_string() })
            }
            Self::Undecodable { why, .. } => {
                Err(SimError::Unexpected { wanted: "the request to be accepted", got: why })
            }
        }
    }

    /// The refusal.
    ///
    /// # Errors
    /// [`SimError::Unexpected`] with what came instead.
    pub fn refused(self) -> Result<Refusal, SimError> {
        let wanted = "the request to be refused";
        match self {
            Self::Refused(refusal) => Ok(refusal),
            Self::Accepted(_) => Err(SimError::Unexpected { wanted, got: "it was accepted".to_owned() }),
            Self::Undecodable { why, .. } => Err(SimError::Unexpected { wanted, got: why }),
        }
    }

    /// Another reading of an accepted answer.
    pub(super) fn map<U>(self, read: impl FnOnce(T) -> U) -> Reply<U> {
        match self {
            Self::Accepted(answer) => Reply::Accepted(read(answer)),
            Self::Refused(refusal) => Reply::Refused(refusal),
            Self::Undecodable { meta, why } => Reply::Undecodable { meta, why },
        }
    }
}

/// A JSON acknowledgement: `{"ok":true}`.
#[derive(Debug, Clone)]
pub struct Ack {
    /// Status, headers and times.
    pub meta: Meta,
    /// The body, one JSON object.
    pub body: Map<String, Value>,
}

/// How refusals under 2xx are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OkFalse {
    /// As a violation: the guide wants 4xx or 5xx.
    Noted,
    /// As they are: `interaction.resolve` answers so.
    Fine,
}

/// What the answer says of itself, before its body.
pub(super) fn meta(id: &str, sent: &Sent) -> Meta {
    Meta {
        id: id.to_owned(),
        status: sent.response.status().as_u16(),
        headers: sent.response.headers().clone(),
        http: sent.response.version(),
        headers_after: sent.headers_after,
        elapsed: sent.started.elapsed(),
    }
}

/// Reads the rest of the answer as JSON and notes what is wrong with it.
pub(super) async fn read(bcs: &Bcs, id: &str, sent: Sent, ok_false: OkFalse) -> Result<Reply<Ack>, SimError> {
    let mut meta = meta(id, &sent);
    if is_event_stream(&meta.headers) && (200..300).contains(&meta.status) {
        bcs.inner.note(ViolationKind::SseNotAsked, id, "the answer is an event stream, which was not asked for");
        let why = "the answer is an event stream where JSON was asked for".to_owned();
        return Ok(Reply::Undecodable { meta, why });
    }
    let bound = bcs.options().json_timeout.saturating_sub(sent.started.elapsed());
    let body = within(bound, "the body of the answer", sent.response.bytes()).await?;
    meta.elapsed = sent.started.elapsed();
    let mut notes = Notes::new();
    let reply = judge(meta, body, ok_false, &mut notes);
    bcs.inner.state().note_all(id, notes);
    Ok(reply)
}

async fn within<T>(
    bound: Duration,
    what: &str,
    work: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, SimError> {
    let started = Instant::now();
    match tokio::time::timeout(bound, work).await {
        Ok(done) => done.map_err(|error| SimError::transport(&error)),
        Err(_) => Err(SimError::TimedOut { what: what.to_owned(), waited: started.elapsed() }),
    }
}

/// Whether the answer says that it is an event stream, as the server looks at it: case and all.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// Judges a whole answer.
pub(super) fn judge(meta: Meta, body: Bytes, ok_false: OkFalse, notes: &mut Notes) -> Reply<Ack> {
    check_headers(&meta, notes);
    if !(200..300).contains(&meta.status) {
        return Reply::Refused(refusal(meta, body, notes));
    }
    match decode(&body) {
        Err((kind, why)) => {
            notes.push((kind, why.clone()));
            Reply::Undecodable { meta, why }
        }
        Ok(fields) if fields.get("ok") == Some(&Value::Bool(true)) => Reply::Accepted(Ack { meta, body: fields }),
        Ok(fields) => {
            if ok_false == OkFalse::Noted {
                let what = format!("the answer is HTTP {} with `ok:false`", meta.status);
                notes.push((ViolationKind::RefusedUnder2xx, what));
            }
            let message = fields.get("error").and_then(Value::as_str).unwrap_or_default().to_owned();
            let retryable = fields.get("retryable").and_then(Value::as_bool);
            let error = ErrorEnvelope { message, ..ErrorEnvelope::default() };
            Reply::Refused(Refusal { retry_after: retry_after(&meta.headers), meta, error, retryable, body })
        }
    }
}

/// The fields of an acknowledgement, if the server can decode it.
fn decode(body: &[u8]) -> Result<Map<String, Value>, (ViolationKind, String)> {
    let shape = |what: &str| (ViolationKind::AckShape, what.to_owned());
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return Err(shape(if body.is_empty() { "the body is empty" } else { "the body is no JSON object" }));
    };
    match fields.get("error") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(Value::Object(_)) => {
            return Err((ViolationKind::AckErrorObject, "`error` is an object under a 2xx status".to_owned()));
        }
        Some(_) => return Err(shape("`error` is neither a string nor absent")),
    }
    if !matches!(fields.get("retryable"), None | Some(Value::Null | Value::Bool(_))) {
        return Err(shape("`retryable` is no boolean"));
    }
    match fields.get("ok") {
        Some(Value::Bool(_)) => Ok(fields),
        Some(_) => Err(shape("`ok` is no boolean")),
        None => Err(shape("`ok` is missing")),
    }
}

fn check_headers(meta: &Meta, notes: &mut Notes) {
    if let Some(encoding) = meta.headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        notes.push((ViolationKind::ContentEncoding, format!("the body is encoded as {encoding:?}")));
    }
    if (300..400).contains(&meta.status) {
        notes.push((ViolationKind::Redirected, format!("the answer is HTTP {}", meta.status)));
    } else if !crate::wire::headers::is_json(&meta.headers) {
        let got = meta.headers.get(CONTENT_TYPE).map_or_else(|| "none".to_owned(), |value| format!("{value:?}"));
        notes.push((ViolationKind::AnswerContentType, format!("the content type is {got}")));
    }
}

/// Reads a refusal; also for answers to raw requests.
pub(super) fn refusal(meta: Meta, body: Bytes, notes: &mut Notes) -> Refusal {
    let error = read_envelope(meta.status, &body, notes);
    let retry_after = retry_after(&meta.headers);
    if let (Some(ms), Some(seconds)) = (error.retry_after_ms, retry_after)
        && seconds.saturating_mul(1000) < ms
    {
        let what = format!("`Retry-After` is {seconds} s, less than `retry_after_ms`, {ms} ms");
        notes.push((ViolationKind::ErrorEnvelope, what));
    }
    Refusal { retryable: error.retryable, retry_after, meta, error, body }
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}
