//! A Provider whose answers are scripted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, Version};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::super::{Bcs, BcsOptions, unix_ms};
use super::options;

/// A request as the Provider got it.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) headers: HeaderMap,
    pub(super) version: Version,
    pub(super) raw: Bytes,
    pub(super) body: Value,
}

impl Hit {
    pub(super) fn id(&self) -> String {
        self.body["id"].as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(super) type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A simulated server connected to a Provider that answers every request so.
pub(super) async fn scripted<F, A>(script: F) -> Bcs
where
    F: Fn(Hit) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    scripted_with(options(), move |_, hit| Box::pin(script(hit))).await
}

/// The same with settings, and with the server's handle for the script.
pub(super) async fn scripted_with(
    options: BcsOptions,
    script: impl Fn(Bcs, Hit) -> Answer + Send + Sync + 'static,
) -> Bcs {
    let bcs = Bcs::start(options).await.unwrap();
    connect(&bcs, script).await;
    bcs
}

/// Starts one more Provider and makes it the webhook.
pub(super) async fn connect(bcs: &Bcs, script: impl Fn(Bcs, Hit) -> Answer + Send + Sync + 'static) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (script, of) = (Arc::new(script), bcs.clone());
    let app = Router::new().fallback(move |request: Request<Body>| {
        let (script, bcs) = (script.clone(), of.clone());
        async move {
            let (parts, body) = request.into_parts();
            let raw = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&raw).unwrap_or_default();
            script(bcs, Hit { headers: parts.headers, version: parts.version, raw, body }).await
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    bcs.connect(&format!("http://{address}/webhook"));
}

pub(super) fn json(status: u16, body: &Value) -> Response<Body> {
    let builder = Response::builder().status(status).header("content-type", "application/json");
    builder.body(body.to_string().into()).unwrap()
}

pub(super) fn ack() -> Response<Body> {
    json(200, &json!({"ok": true}))
}

/// An event stream of these pieces, closed after the last.
pub(super) fn sse(pieces: Vec<Bytes>) -> Response<Body> {
    let body = Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>)));
    sse_body(body)
}

/// An event stream of these pieces that then stays open.
pub(super) fn sse_open(pieces: Vec<Bytes>) -> Response<Body> {
    use futures_util::StreamExt;
    let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>));
    sse_body(Body::from_stream(pieces.chain(stream::pending())))
}

pub(super) fn sse_body(body: Body) -> Response<Body> {
    Response::builder().header("content-type", "text/event-stream; charset=utf-8").body(body).unwrap()
}

/// A frame with the fields that all events have.
pub(super) fn frame(name: &str, seq: u64, mut data: Value) -> Bytes {
    for (field, value) in [("runId", json!("p-run")), ("seq", json!(seq)), ("ts", json!(unix_ms()))] {
        if data.get(field).is_none() {
            data[field] = value;
        }
    }
    format!("event: {name}\nid: {seq}\ndata: {data}\n\n").into()
}

pub(super) fn delta(seq: u64, text: &str) -> Bytes {
    frame("chat", seq, json!({"state": "delta", "deltaText": text}))
}

pub(super) fn last(seq: u64, text: &str) -> Bytes {
    let message = json!({"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": unix_ms()});
    frame("chat", seq, json!({"state": "final", "message": message}))
}

/// A callback that a test posts.
#[derive(Clone)]
pub(super) struct Post {
    pub(super) body: Value,
    pub(super) event_id: String,
    pub(super) version: &'static str,
    pub(super) token: String,
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Post {
    /// A right callback for a run of protocol 2.0.
    pub(super) fn new(bcs: &Bcs, body: Value) -> Self {
        let options = bcs.options();
        Self {
            body,
            event_id: uuid::Uuid::new_v4().to_string(),
            version: "2.0",
            token: options.bot_runtime_token.as_ref().unwrap().reveal().to_owned(),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("x-bcn-provider-id", options.provider_id.clone()),
                ("x-bcn-timestamp", unix_ms().to_string()),
            ],
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|header| header.0 != name);
        if !value.is_empty() {
            self.headers.push((name, value.to_owned()));
        }
        self
    }

    /// Posts it; the status and the body, or nothing if there was no whole answer.
    pub(super) async fn send(&self, bcs: &Bcs) -> Option<(u16, String)> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let mut request = client
            .post(format!("{}/bot/events", bcs.url()))
            .header("authorization", format!("Bearer {}", self.token))
            .header("x-bcn-protocol-version", self.version)
            .header("x-bcn-event-id", &self.event_id)
            .body(self.body.to_string());
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let response = request.send().await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// Posts it; the status.
    pub(super) async fn status(&self, bcs: &Bcs) -> Option<u16> {
        self.send(bcs).await.map(|answer| answer.0)
    }
}

/// The legacy form.
pub(super) fn legacy(run_id: &str, state: &str, text: &str) -> Value {
    json!({"run_id": run_id, "seq": 1, "state": state, "message": {"text": text}})
}
