//! The client of BCS: one POST to `/bot/events` (reference, section 5).

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url, redirect};
use serde::Deserialize;

use super::credentials::Credentials;
use super::install_crypto;
use crate::clock::now_ms;
use crate::wire::callback::CallbackBody;
use crate::wire::headers::{EVENT_ID, PROTOCOL_VERSION, PROVIDER_BOT_REF, PROVIDER_ID, ProtocolVersion, TIMESTAMP};
use crate::wire::{BotRef, Channel};

/// An answer is read up to here, in bytes, so that its connection can be used again.
const MAX_ANSWER: usize = 64 * 1024;

/// A setting that the client cannot work with: a sentence, without what was set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

/// What one try met. Shown as words, it has neither tokens nor addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// An answer.
    Answered {
        /// Its HTTP status.
        status: u16,
        /// The word for the error in its body, if it has one.
        code: Option<String>,
        /// `Retry-After`, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// No answer, and why.
    Failed(String),
    /// It was not tried: what is to be set.
    NotConfigured(String),
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { status, code: Some(code), .. } => write!(f, "BCS answered {status} {code}"),
            Self::Answered { status, code: None, .. } => write!(f, "BCS answered {status}"),
            Self::Failed(why) | Self::NotConfigured(why) => f.write_str(why),
        }
    }
}

/// How long a try may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) connect: Duration,
    pub(super) total: Duration,
    /// For the rest of an answer whose status is there.
    pub(super) body: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), total: Duration::from_secs(30), body: Duration::from_secs(5) }
    }
}

/// The client of one BCS.
#[derive(Debug)]
pub struct BcsClient {
    http: Client,
    /// Where callbacks go; `None` if no address is set.
    events: Option<Url>,
    provider_id: HeaderValue,
    credentials: RwLock<Arc<Credentials>>,
    times: Times,
}

impl BcsClient {
    /// A client for the BCS at `bcs_url` (which may have a path), as provider `provider_id`. Without an address nothing
    /// can be sent: a provider that only streams needs none.
    ///
    /// # Errors
    /// [`InvalidSetting`] naming the setting and what is wrong with it.
    pub fn new(bcs_url: Option<&str>, provider_id: &str, credentials: Credentials) -> Result<Self, InvalidSetting> {
        Self::with_times(bcs_url, provider_id, credentials, Times::default())
    }

    pub(super) fn with_times(
        bcs_url: Option<&str>,
        provider_id: &str,
        credentials: Credentials,
        times: Times,
    ) -> Result<Self, InvalidSetting> {
        install_crypto();
        let events = bcs_url.map(events_url).transpose()?;
        let mut http = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(times.connect)
            .timeout(times.total);
        if events.as_ref().is_none_or(|url| url.scheme() == "http") {
            // No certificates are looked at then, and none need be on this machine.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|error| {
            let why = words(&error.without_url());
            InvalidSetting(format!("the client for `provider.bcs_url` cannot be made: {why}"))
        })?;
        let provider_id = HeaderValue::from_str(provider_id)
            .map_err(|_| InvalidSetting("`provider.id` has characters that cannot stand in a header".into()))?;
        Ok(Self { http, events, provider_id, credentials: RwLock::new(Arc::new(credentials)), times })
    }

    /// Whether there is an address to send to.
    #[must_use]
    pub fn has_address(&self) -> bool {
        self.events.is_some()
    }

    /// Puts other credentials in the place of those of before, for tries from now on.
    pub fn set_credentials(&self, credentials: Credentials) {
        *self.credentials.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(credentials);
    }

    /// Sends one body of a run's callback.
    pub async fn post_event(&self, bot: &BotRef, channel: Channel, body: &CallbackBody) -> Tried {
        let Some(url) = self.events.clone() else {
            return Tried::NotConfigured("there is nowhere to send callbacks: set `provider.bcs_url`".into());
        };
        let authorization = match self.authorization(bot) {
            Ok(value) => value,
            Err(why) => return Tried::NotConfigured(why),
        };
        let version = match channel {
            Channel::CallbackV1 => ProtocolVersion::V1,
            Channel::CallbackV2 | Channel::Sse => ProtocolVersion::V2,
        };
        let request = self
            .http
            .post(url)
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_TYPE, "application/json")
            .header(PROVIDER_ID, self.provider_id.clone())
            .header(PROVIDER_BOT_REF, bot.as_str())
            .header(PROTOCOL_VERSION, version.as_str())
            .header(TIMESTAMP, now_ms().to_string())
            .header(EVENT_ID, &body.event_id)
            .body(body.json.clone());
        match request.send().await {
            Ok(answer) => self.read(answer).await,
            Err(error) => Tried::Failed(reason(error)),
        }
    }

    fn authorization(&self, bot: &BotRef) -> Result<HeaderValue, String> {
        let credentials = self.credentials.read().unwrap_or_else(PoisonError::into_inner).clone();
        let setting = credentials.setting();
        let token =
            credentials.token(bot).ok_or_else(|| format!("there is no token for the bot {bot}: set {setting}"))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| format!("the token for the bot {bot} has characters that cannot stand in a header"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The status says it all: a body that breaks off or never ends changes nothing.
    async fn read(&self, mut answer: Response) -> Tried {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }

        let status = answer.status().as_u16();
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after_ms =
            retry_after.and_then(|text| text.trim().parse::<u64>().ok()).map(|s| s.saturating_mul(1_000));
        let mut body = Vec::new();
        let whole = async {
            while let Ok(Some(chunk)) = answer.chunk().await {
                if body.len() + chunk.len() > MAX_ANSWER {
                    break;
                }
                body.extend_from_slice(&chunk);
            }
        };
        // What is not there in time is left.
        let _ = tokio::time::timeout(self.times.body, whole).await;
        let is_word =
            |text: &String| (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let code = serde_json::from_slice::<Refusal>(&body).ok().map(|refusal| refusal.error).filter(is_word);
        Tried::Answered { status, code, retry_after_ms }
    }
}

/// `{bcs_url}/bot/events`, whatever path the base has.
fn events_url(base: &str) -> Result<Url, InvalidSetting> {
    let invalid = |why: &str| InvalidSetting(format!("`provider.bcs_url`: {why}"));
    let mut url =
        Url::parse(base).map_err(|error| invalid(&format!("expected an address like https://host: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("expected an address that begins with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("a name or password cannot stand in it: BCS wants a token in their place"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("expected an address without `?` and `#`"));
    }
    match url.path_segments_mut() {
        Ok(mut path) => drop(path.pop_if_empty().extend(["bot", "events"])),
        Err(()) => return Err(invalid("expected an address that can have a path")),
    }
    Ok(url)
}

/// Why there was no answer, without the address.
fn reason(error: reqwest::Error) -> String {
    let kind = if error.is_timeout() {
        "BCS did not answer in time"
    } else if error.is_connect() {
        "no connection to BCS"
    } else {
        "the connection to BCS broke"
    };
    format!("{kind}: {}", words(&error.without_url()))
}

/// The innermost cause, which is the one that says something.
fn words(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string().chars().take(200).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::BTreeMap;

    use super::*;

    fn credentials() -> Credentials {
        Credentials::StaticBearer { default: None, bots: BTreeMap::new() }
    }

    #[test]
    fn a_base_may_have_a_path() {
        for (base, url) in [
            ("http://bcs:21000", "http://bcs:21000/bot/events"),
            ("https://x.example/", "https://x.example/bot/events"),
            ("https://x.example/gw/bcs", "https://x.example/gw/bcs/bot/events"),
            ("https://x.example/gw/bcs/", "https://x.example/gw/bcs/bot/events"),
        ] {
            assert_eq!(events_url(base).unwrap().as_str(), url);
        }
    }

    #[test]
    fn other_addresses_are_refused_and_not_repeated() {
        for base in [
            "",
            "secret",
            "ftp://x/secret",
            "https://me:secret@x/",
            "http://x/?secret",
            "http://x/#secret",
            "data:secret",
        ] {
            let error = BcsClient::new(Some(base), "p", credentials()).unwrap_err().to_string();
            assert!(error.starts_with("`provider.bcs_url`: ") && !error.contains("secret"), "{error}");
        }
        assert!(BcsClient::new(None, "a\nb", credentials()).unwrap_err().to_string().contains("`provider.id`"));
        assert!(!BcsClient::new(None, "p", credentials()).unwrap().has_address());
        assert!(BcsClient::new(Some("https://x/"), "p", credentials()).unwrap().has_address());
    }
}
