//! A client without manners, for requests that the simulated BCS would never make.

use serde_json::{Value, json};

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
