//! Building a request to the webhook as the real server does (reference, section 2.1), with ways to depart from it on
//! purpose.

use std::future::Future;
use std::marker::PhantomData;

use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Map, Value, json};

use super::Bcs;
use super::client::Http;
use super::error::SimError;
use crate::wire::headers::ProtocolVersion;

/// How a `chat.send` of protocol 2.0 asks for the run's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// As an event stream, or by callback if the Provider prefers that.
    Sse,
    /// By callback.
    Callback,
}

/// A method of the protocol: how its answer is read.
pub trait Kind: Clone + Send + Sync + Sized + 'static {
    /// What comes back.
    type Answer: Send;
    /// Sends the request and reads the answer.
    fn perform(request: Request<Self>) -> impl Future<Output = Result<Self::Answer, SimError>> + Send;
}

/// A request that is being built; awaiting it sends it. A clone has the same id and body, so it is a repetition.
#[derive(Debug, Clone)]
pub struct Request<K> {
    pub(super) bcs: Bcs,
    kind: PhantomData<K>,
    pub(super) version: ProtocolVersion,
    pub(super) transport: Transport,
    pub(super) body: Map<String, Value>,
    pub(super) overrides: Vec<(String, Option<HeaderValue>)>,
    pub(super) invalid: Option<String>,
    pub(super) raw: Option<Bytes>,
    pub(super) http: Option<Http>,
    pub(super) own_connection: bool,
}

impl<K: Kind> Request<K> {
    pub(super) fn new(bcs: &Bcs, method: &str, bot: &str, session: &str, timeout_ms: u64) -> Self {
        let mut to_bot = json!({ "provider_id": bcs.options().provider_id });
        if !bot.is_empty() {
            to_bot["provider_bot_ref"] = bot.into();
        }
        let mut body = Map::new();
        body.insert("type".into(), "req".into());
        body.insert("id".into(), uuid::Uuid::new_v4().to_string().into());
        body.insert("method".into(), method.into());
        body.insert("session_id".into(), session.into());
        // In a direct chat there is no group, and the server repeats the session.
        body.insert("bcn_group_id".into(), session.into());
        body.insert("to_bot".into(), to_bot);
        body.insert("timeout_ms".into(), timeout_ms.into());
        Self {
            bcs: bcs.clone(),
            kind: PhantomData,
            version: ProtocolVersion::V2,
            transport: Transport::Callback,
            body,
            overrides: Vec::new(),
            invalid: None,
            raw: None,
            http: None,
            own_connection: false,
        }
    }

    /// The protocol version; 2.0 if not set.
    #[must_use]
    pub fn version(mut self, version: ProtocolVersion) -> Self {
        self.version = version;
        self
    }

    /// The business id; a fresh UUID if not set.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.field("id", id)
    }

    /// `timeout_ms`; the server's own for the method if not set.
    #[must_use]
    pub fn timeout_ms(self, ms: u64) -> Self {
        self.field("timeout_ms", ms)
    }

    /// The whole `message`, in place of the text.
    #[must_use]
    pub fn message(self, message: Value) -> Self {
        self.field("message", message)
    }

    /// `from`.
    #[must_use]
    pub fn from(self, from: Value) -> Self {
        self.field("from", from)
    }

    /// `attachments`.
    #[must_use]
    pub fn attachments(self, attachments: Value) -> Self {
        self.field("attachments", attachments)
    }

    /// `extensions`.
    #[must_use]
    pub fn extensions(self, extensions: Value) -> Self {
        self.field("extensions", extensions)
    }

    /// `bcn_group_id`; the session's id, as in a direct chat, if not set.
    #[must_use]
    pub fn group(self, group: &str) -> Self {
        self.field("bcn_group_id", group)
    }

    /// `to_bot.tags`.
    #[must_use]
    pub fn tags(self, tags: &[&str]) -> Self {
        self.target("tags", json!(tags))
    }

    /// `to_bot.provider_id`, to name another Provider.
    #[must_use]
    pub fn provider_id(self, provider_id: &str) -> Self {
        self.target("provider_id", provider_id.into())
    }

    fn target(mut self, name: &str, value: Value) -> Self {
        if let Some(Value::Object(to_bot)) = self.body.get_mut("to_bot") {
            to_bot.insert(name.to_owned(), value);
        }
        self
    }

    /// Any field of the body, in place of what it would be.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.body.insert(name.to_owned(), value.into());
        self
    }

    /// The body without this field.
    #[must_use]
    pub fn without_field(mut self, name: &str) -> Self {
        self.body.remove(name);
        self
    }

    /// Any header, in place of what it would be; bytes that no header may have are refused when it is sent.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match HeaderValue::from_bytes(value.as_ref()) {
            Ok(value) => self.overrides.push((name.to_owned(), Some(value))),
            Err(_) => self.invalid = Some(format!("the value given for the header {name:?} cannot be sent")),
        }
        self
    }

    /// The request without this header.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.overrides.push((name.to_owned(), None));
        self
    }

    /// The bytes of the body, whatever they are.
    #[must_use]
    pub fn raw_body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.raw = Some(bytes.into());
        self
    }

    /// Over HTTP/1.1.
    #[must_use]
    pub fn http1(mut self) -> Self {
        self.http = Some(Http::One);
        self
    }

    /// Over HTTP/2 with prior knowledge.
    #[must_use]
    pub fn http2(mut self) -> Self {
        self.http = Some(Http::Two);
        self
    }

    /// Over a connection that no other request uses: a stream that is not read then slows down no other.
    #[must_use]
    pub fn own_connection(mut self) -> Self {
        self.own_connection = true;
        self
    }

    /// The request's id.
    #[must_use]
    pub fn request_id(&self) -> &str {
        self.text("id")
    }

    /// The body as JSON bytes, as it will be sent.
    #[must_use]
    pub fn body_bytes(&self) -> Bytes {
        self.raw.clone().unwrap_or_else(|| Value::Object(self.body.clone()).to_string().into())
    }

    /// A text field of the body; empty if it is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.body.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The bot that the body is for.
    pub(super) fn bot(&self) -> &str {
        self.body.get("to_bot").and_then(|to| to.get("provider_bot_ref")).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the request accepts an event stream, as the server builds it.
    pub(super) fn asks_sse(&self) -> bool {
        self.version == ProtocolVersion::V2 && self.transport == Transport::Sse
    }
}
