//! Sending a request: the headers of the real server (reference, section 1.1), and the way to the answer's headers.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::client::Http;
use super::error::SimError;
use super::request::{Kind, Request};
use super::violation::ViolationKind;
use crate::wire::headers::{MESSAGE_ID, PROTOCOL_VERSION, ProtocolVersion, TIMESTAMP, TRANSPORT};

/// What came back, before the body is read.
pub(super) struct Sent {
    pub(super) response: reqwest::Response,
    pub(super) started: Instant,
    pub(super) headers_after: Duration,
}

impl<K: Kind> Request<K> {
    fn headers(&self) -> Result<HeaderMap, SimError> {
        let bad = |what: &str| SimError::Request(format!("{what} cannot be sent in a header"));
        let mut headers = HeaderMap::new();
        let token = format!("Bearer {}", self.bcs.options().b2p_token.reveal());
        let mut token = HeaderValue::from_str(&token).map_err(|_| bad("the token"))?;
        token.set_sensitive(true);
        headers.insert(AUTHORIZATION, token);
        let accept = if self.asks_sse() { "text/event-stream, application/json" } else { "application/json" };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(self.version.as_str()));
        let message_id = uuid::Uuid::new_v4().to_string();
        headers.insert(MESSAGE_ID, HeaderValue::from_str(&message_id).map_err(|_| bad("the message id"))?);
        headers.insert(TIMESTAMP, HeaderValue::from(super::unix_ms()));
        if self.version == ProtocolVersion::V2 {
            let transport = if self.asks_sse() { "sse" } else { "callback" };
            headers.insert(TRANSPORT, HeaderValue::from_static(transport));
        }
        for (name, value) in &self.overrides {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(&format!("{name:?}")))?;
            match value {
                Some(value) => drop(headers.insert(name, value.clone())),
                None => drop(headers.remove(name)),
            }
        }
        Ok(headers)
    }

    /// Posts it and waits for the headers of the answer.
    pub(super) async fn post(&self) -> Result<Sent, SimError> {
        if let Some(why) = &self.invalid {
            return Err(SimError::Request(why.clone()));
        }
        let url = self.bcs.webhook()?;
        // The server's event streams may need HTTP/2, its JSON requests never do.
        let http = self.http.unwrap_or(if self.asks_sse() { Http::Two } else { Http::Negotiated });
        let client = self.bcs.inner.clients.get(http, self.own_connection)?;
        let request = client.post(url).headers(self.headers()?).body(self.body_bytes());
        let options = self.bcs.options();
        let bound = if self.asks_sse() { options.headers_timeout } else { options.json_timeout };
        let started = Instant::now();
        match tokio::time::timeout(bound, request.send()).await {
            Ok(Ok(response)) => Ok(Sent { response, started, headers_after: started.elapsed() }),
            Ok(Err(error)) => Err(SimError::transport(&error)),
            Err(_) => {
                let what = format!("the answer to {}", self.text("method"));
                self.bcs.inner.note(
                    ViolationKind::SlowHeaders,
                    self.request_id(),
                    format!("there was no answer to {} within {bound:?}", self.text("method")),
                );
                Err(SimError::TimedOut { what, waited: bound })
            }
        }
    }
}

impl<K: Kind> IntoFuture for Request<K> {
    type Output = Result<K::Answer, SimError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(K::perform(self))
    }
}
