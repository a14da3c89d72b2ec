//! The callback server: `POST /bot/events` as the real server takes it (reference, section 5).

mod auth;
mod body;
mod fault;
mod ingest;
mod judge;
mod lint;
mod server;

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;

pub use self::fault::{Fault, FaultRule};
pub(super) use self::server::{Server, bind, serve, stop};

/// What the Provider got for a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// Nothing yet.
    Pending,
    /// This HTTP status.
    Status(u16),
    /// Nothing: the connection was closed, by this server or by the Provider.
    Closed,
    /// This HTTP status and a part of the body.
    Cut(u16),
    /// Nothing, for as long as the Provider waits.
    Hung,
}

/// One request that came to the callback server.
#[derive(Debug, Clone)]
pub struct Callback {
    /// When it came.
    pub at: Instant,
    /// `run_id` of the body; empty if it has none.
    pub run_id: String,
    /// `X-BCN-Event-Id`; empty if it has none.
    pub event_id: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// What the Provider got.
    pub answer: Answered,
    /// Whether the server took it into the run.
    pub ingested: bool,
    /// Whether it came before the acknowledgement of its send had been read.
    pub early: bool,
}

impl Callback {
    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What is remembered of an event id.
#[derive(Debug)]
pub(super) struct SeenEvent {
    pub(super) body: Bytes,
    /// The last answer, if the Provider is sure to have got it.
    pub(super) answer: Option<u16>,
}

/// A callback on its way through the checks.
#[derive(Debug)]
struct Post {
    headers: HeaderMap,
    body: Bytes,
    run_id: String,
    event_id: String,
}

/// The server's answer to a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    status: u16,
    content_type: &'static str,
    body: String,
    ingested: bool,
    early: bool,
}

impl Verdict {
    fn accepted() -> Self {
        let body = r#"{"ok":true,"delivered_count":1,"failed_count":0}"#.to_owned();
        Self { status: 200, content_type: "application/json", body, ingested: true, early: false }
    }

    /// The error shape of this endpoint: `{"error":code,"message":…,"status":…}`.
    fn error(status: u16, code: &str, message: &str) -> Self {
        let body = serde_json::json!({ "error": code, "message": message, "status": status }).to_string();
        Self { status, content_type: "application/json", body, ingested: false, early: false }
    }

    /// What the server's HTTP layer says before the endpoint is reached.
    fn plain(status: u16, message: &str) -> Self {
        let body = message.to_owned();
        Self { status, content_type: "text/plain; charset=utf-8", body, ingested: false, early: false }
    }
}
