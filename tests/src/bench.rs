//! What the benchmark measures with: a plain client, a bare handler, and calls without a network.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use avernest::bot::{
    BotLog, Call, CancelToken, Compiler, Conversation, ConversationFuture, EventSink, Export, Limits, LogLine,
    MemoryLedger, PastMessage, Prepared, RequestInfo, Runtime, RuntimeOptions,
};
use avernest::wire::Event;
use avernest::wire::message::RawMessage;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::process::{Provider, binary, bots_dir};
use crate::wait::eventually;

const TOKEN: &str = "bench-token";

/// Settings in `dir` with these bots; gives the settings file.
///
/// # Panics
/// If the folder cannot be written.
#[must_use]
pub fn settings(dir: &Path, bots: &[&str]) -> PathBuf {
    let plugins = dir.join("plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    for bot in bots {
        std::fs::copy(bots_dir().join(format!("{bot}.wasm")), plugins.join(format!("{bot}.wasm"))).unwrap();
    }
    let file = dir.join("avernest.toml");
    let text = format!(
        "[provider]\nid = \"p\"\nbcs_to_provider_token = \"{TOKEN}\"\n[server]\nlisten = \"127.0.0.1:0\"\ndrain_seconds = 0\n\
         [plugins]\ndir = {plugins:?}\n[data]\ndir = {:?}\n",
        dir.join("data")
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// A percentile of unsorted times.
#[must_use]
pub fn percentile(times: &[f64], p: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = ((sorted.len() as f64 - 1.0) * p / 100.0).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// A client with one connection.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    /// A client of a webhook.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(url: &str) -> Self {
        avernest::network::install_crypto();
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build().unwrap();
        Self { http, url: url.to_owned() }
    }

    async fn post(&self, body: &Value, accept: &str) -> reqwest::Response {
        self.http
            .post(&self.url)
            .header("Authorization", format!("Bearer {TOKEN}"))
            .header("Content-Type", "application/json; charset=utf-8")
            .header("Accept", accept)
            .header("X-BCN-Protocol-Version", "2.0")
            .header("X-BCN-Timestamp", avernest::clock::now_ms().to_string())
            .body(body.to_string())
            .send()
            .await
            .unwrap()
    }

    /// A whole streamed `chat.send`.
    ///
    /// # Panics
    /// If it does not end with a final.
    pub async fn sse(&self, id: &str, session: &str, bot: &str, text: &str) {
        let answer = self.post(&send(id, session, bot, text), "text/event-stream, application/json").await;
        let body = answer.text().await.unwrap();
        assert!(body.contains("\"state\":\"final\""), "{body}");
    }

    /// A `chat.send` with acknowledgement.
    ///
    /// # Panics
    /// If it is not acknowledged.
    pub async fn ack(&self, id: &str, session: &str, bot: &str, text: &str) {
        let answer = self.post(&send(id, session, bot, text), "application/json").await;
        assert_eq!(answer.text().await.unwrap(), "{\"ok\":true}");
    }

    /// A `bot.ping`.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn ping(&self) -> Value {
        let body = json!({"type": "req", "id": "p", "method": "bot.ping", "timeout_ms": 60_000});
        let answer = self.post(&body, "application/json").await;
        assert!(answer.status().is_success());
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    /// A `chat.abort` that must abort one run.
    ///
    /// # Panics
    /// If it does not.
    pub async fn abort(&self, id: &str, session: &str, bot: &str) {
        let mut body = send(id, session, bot, "");
        body["method"] = "chat.abort".into();
        let answer = self.post(&body, "application/json").await.text().await.unwrap();
        assert!(answer.contains("\"aborted\":true"), "{answer}");
    }

    /// Waits until this many runs are RUNNING.
    pub async fn until_running(&self, count: usize) {
        eventually("all runs to be running", async || {
            let running = self.ping().await["running"].as_u64();
            running.is_some_and(|n| n >= count as u64).then_some(())
        })
        .await;
    }

    /// The times from abort to the guest being gone, as the provider logs them, in seconds.
    pub async fn stopped_after(&self, provider: &Provider, count: usize) -> Vec<f64> {
        eventually("all guests to be gone", async || {
            let log = provider.log();
            let times: Vec<f64> = log
                .split("stopped_after_us=")
                .skip(1)
                .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<f64>().ok())
                .map(|us| us / 1e6)
                .collect();
            (times.len() >= count).then_some(times)
        })
        .await
    }
}

fn send(id: &str, session: &str, bot: &str, text: &str) -> Value {
    json!({
        "type": "req", "id": id, "method": "chat.send", "session_id": session, "bcn_group_id": session,
        "to_bot": {"provider_id": "p", "provider_bot_ref": bot},
        "message": {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0},
        "timeout_ms": 600_000,
    })
}

/// What one call took, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct CallTime {
    /// From the request for it to its end being known, the way to the guest thread and back included.
    pub whole: f64,
    /// On the guest thread: store, instance, call, and giving all of it back.
    pub guest: f64,
    /// Of that, the instance.
    pub instance: f64,
}

/// Calls of one component in this process.
pub struct Calls {
    runtime: Runtime,
    bot: Arc<Prepared>,
}

impl Calls {
    /// Loads a component.
    ///
    /// # Panics
    /// If it does not load.
    pub async fn of(file: &Path) -> Self {
        let ledger = Arc::new(MemoryLedger::default());
        let options = RuntimeOptions::new(Compiler::Child(binary()), None, ledger);
        let runtime = Runtime::new(options, &tokio::runtime::Handle::current()).unwrap();
        let bot = runtime.prepare(std::fs::read(file).unwrap()).await.unwrap();
        Self { runtime, bot }
    }

    /// One call: a fresh instance and one `send`.
    ///
    /// # Panics
    /// If the bot does not answer.
    pub async fn one(&self) -> CallTime {
        let raw = RawMessage::reply("echo hello", None, 0);
        let call = Call {
            export: Export::Send,
            request: RequestInfo {
                id: "r".into(),
                session: "s".into(),
                group: "g".into(),
                tags: Vec::new(),
                deadline: u64::MAX,
                extensions: None,
            },
            message: PastMessage { message: raw.parse().unwrap(), timestamp: 0 },
            conversation: Arc::new(Nothing),
            sink: Arc::new(Nothing),
            cancel: CancelToken::default(),
        };
        let at = Instant::now();
        let end = self.runtime.call(&self.bot, &Limits::default(), Arc::new(Nothing), call).await;
        let whole = at.elapsed().as_secs_f64();
        assert!(end.result.is_ok(), "{:?}", end.result);
        CallTime { whole, guest: end.report.wall.as_secs_f64(), instance: end.report.instantiate.as_secs_f64() }
    }

    /// Seconds of wall time a call, with `at_once` of them under way all the time.
    pub async fn together(&self, at_once: usize, each: usize) -> f64 {
        let began = Instant::now();
        let many = (0..at_once).map(async |_| {
            for _ in 0..each {
                self.one().await;
            }
        });
        futures_util::future::join_all(many).await;
        began.elapsed().as_secs_f64() / (at_once * each) as f64
    }
}

/// No session, nobody who listens, no log.
struct Nothing;

impl Conversation for Nothing {
    fn history(&self, _: usize, _: usize) -> ConversationFuture<'_, Vec<PastMessage>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn get(&self, _: String) -> ConversationFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { Ok(None) })
    }

    fn keys(&self, _: String) -> ConversationFuture<'_, Vec<(String, u64)>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl EventSink for Nothing {
    fn emit(&self, _: Event) {}
}

impl BotLog for Nothing {
    fn line(&self, _: LogLine<'_>) {}
}

/// The least that any provider on axum does: parse the body, answer with an event stream of one final.
///
/// # Panics
/// If no port is free.
pub async fn bare() -> String {
    async fn handler(body: Bytes) -> impl axum::response::IntoResponse {
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = request["message"]["content"][0]["text"].as_str().unwrap_or_default();
        let data = json!({"state": "final", "runId": request["id"], "seq": 1,
            "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}});
        ([(CONTENT_TYPE, "text/event-stream")], format!("event: chat\ndata: {data}\n\n"))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhook", listener.local_addr().unwrap());
    let router = axum::Router::new().route("/webhook", axum::routing::post(handler));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}
