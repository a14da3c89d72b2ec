//! A client without manners, for requests that the simulated BCS would never make.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{PROVIDER, TOKEN};

/// A request to the webhook, right in everything until it is changed.
#[derive(Debug, Clone)]
pub struct Raw {
    /// Headers, by name; `None` leaves one out.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The HTTP method.
    pub method: reqwest::Method,
    /// The body.
    pub body: Vec<u8>,
    /// The path.
    pub path: String,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body as JSON; null if it is none.
    pub json: Value,
}

impl Answer {
    /// The envelope's code.
    #[must_use]
    pub fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    /// The envelope's sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        self.json["error"]["message"].as_str().unwrap_or_default()
    }
}

impl Raw {
    /// A `chat.inject` to `echo` that would be accepted.
    #[must_use]
    pub fn inject(id: &str) -> Self {
        Self::of(&json!({
            "type": "req", "id": id, "method": "chat.inject", "session_id": "s", "bcn_group_id": "g",
            "to_bot": {"provider_id": PROVIDER, "provider_bot_ref": "echo"},
            "message": {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            "timeout_ms": 60_000,
        }))
    }

    /// A request with this body.
    #[must_use]
    pub fn of(body: &Value) -> Self {
        let headers = [
            ("authorization", format!("Bearer {TOKEN}")),
            ("content-type", "application/json; charset=utf-8".into()),
            ("accept", "application/json".into()),
            ("x-bcn-protocol-version", "2.0".into()),
            ("x-bcn-timestamp", avernest::clock::now_ms().to_string()),
        ];
        Self {
            headers: headers.into_iter().map(|(k, v)| (k.to_owned(), Some(v.into_bytes()))).collect(),
            method: reqwest::Method::POST,
            body: body.to_string().into_bytes(),
            path: "/webhook".into(),
        }
    }

    /// The same with a header set, or left out.
    #[must_use]
    pub fn header(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.retain(|(k, _)| k != name);
        self.headers.push((name.to_owned(), value.map(|v| v.as_bytes().to_vec())));
        self
    }

    /// The same with its body changed.
    ///
    /// # Panics
    /// If the body is no JSON any more.
    #[must_use]
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let mut body: Value = serde_json::from_slice(&self.body).unwrap();
        change(&mut body);
        self.body = body.to_string().into_bytes();
        self
    }

    /// The same as the bytes of an HTTP/1.1 request.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\nhost: test\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            if let Some(value) = value {
                out.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
            }
        }
        out.extend_from_slice(format!("content-length: {}\r\n\r\n", self.body.len()).as_bytes());
        out.extend_from_slice(&self.body);
        out
    }

    /// Sends it.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn send(self, base: &str) -> Answer {
        avernest::network::install_crypto();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut request = client.request(self.method, format!("{base}{}", self.path)).body(self.body);
        for (name, value) in self.headers {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let json = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or(Value::Null);
        Answer { status, headers, json }
    }
}

/// Sends bytes, closes the sending side, and gives what comes back until the provider closes too.
///
/// # Panics
/// If the provider does not close within 20 s.
pub async fn exchange(base: &str, bytes: &[u8]) -> Answer {
    let address = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await;
    read.expect("the provider closes").unwrap();
    let text = String::from_utf8(all).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.get(9..12)).and_then(|status| status.parse().ok()).unwrap_or(0);
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    Answer { status, headers, json: serde_json::from_str(body).unwrap_or(Value::Null) }
}
