//! Requests that are none of the protocol's.

use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::Bcs;
use super::answer::{self, Meta, Refusal};
use super::client::Http;
use super::error::SimError;
use super::post::Sent;
use super::violation::Notes;

/// An answer as it came: nothing of it has been checked.
#[derive(Debug, Clone)]
pub struct RawAnswer {
    /// Status, headers and times.
    pub meta: Meta,
    /// The body.
    pub body: Bytes,
}

impl RawAnswer {
    /// The answer as a refusal of the protocol.
    ///
    /// # Errors
    /// [`SimError::Unexpected`] with everything in which it is not one.
    pub fn refused(&self) -> Result<Refusal, SimError> {
        let wanted = "a refusal with the guide's error envelope";
        if (200..400).contains(&self.meta.status) {
            return Err(SimError::Unexpected { wanted, got: format!("the answer is HTTP {}", self.meta.status) });
        }
        let mut notes = Notes::new();
        let refusal = answer::refusal(self.meta.clone(), self.body.clone(), &mut notes);
        if notes.is_empty() {
            return Ok(refusal);
        }
        let faults: Vec<_> = notes.into_iter().map(|(_, what)| what).collect();
        Err(SimError::Unexpected { wanted, got: faults.join("; ") })
    }
}

impl Bcs {
    /// Any request over HTTP/1.1, with these headers and no others. `path` is the path on the webhook's host (which
    /// begins with `/`), empty for the webhook's own, or a whole URL.
    ///
    /// # Errors
    /// If there is no webhook, or no answer.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<RawAnswer, SimError> {
        let base = reqwest::Url::parse(&self.webhook()?).map_err(|error| SimError::Request(error.to_string()))?;
        let url = base.join(path).map_err(|error| SimError::Request(error.to_string()))?;
        let request = self.inner.clients.get(Http::One, false)?.request(method, url).headers(headers).body(body.into());
        let bound = self.options().json_timeout;
        let started = Instant::now();
        let exchange = async {
            let response = request.send().await?;
            let sent = Sent { headers_after: started.elapsed(), response, started };
            let mut meta = answer::meta("", &sent);
            let body = sent.response.bytes().await?;
            meta.elapsed = started.elapsed();
            Ok(RawAnswer { meta, body })
        };
        match tokio::time::timeout(bound, exchange).await {
            Ok(done) => done.map_err(|error| SimError::transport(&error)),
            Err(_) => Err(SimError::TimedOut { what: "an answer".to_owned(), waited: bound }),
        }
    }
}
