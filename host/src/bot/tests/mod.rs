//! The runtime with real bots: `probe` does what each test tells it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod fairness;
mod limits;
mod loading;
mod stopping;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::*;
use crate::store::StateWrite;
use crate::wire::{Author, Event, Message, Role};

/// The component of a sample bot.
pub(super) fn bot(name: &str) -> Vec<u8> {
    let dir = std::env::var_os("AVERNEST_BOTS_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bots")), PathBuf::from);
    let path = dir.join(format!("{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{} is missing ({error}): run `cargo xtask bots`", path.display()))
}

/// A session in memory.
#[derive(Default)]
pub(super) struct Session {
    pub(super) messages: Mutex<Vec<PastMessage>>,
    pub(super) state: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(super) broken: bool,
}

impl Session {
    fn commit(&self, writes: Vec<StateWrite>) {
        let mut state = self.state.lock().unwrap();
        for write in writes {
            match write.value {
                Some(value) => state.insert(write.key, value),
                None => state.remove(&write.key),
            };
        }
    }
}

impl Conversation for Session {
    fn history(&self, limit: usize, _: usize) -> ConversationFuture<'_, Vec<PastMessage>> {
        let messages = self.messages.lock().unwrap();
        let newest = messages[messages.len().saturating_sub(limit)..].to_vec();
        Box::pin(async { Ok(newest) })
    }

    fn get(&self, key: String) -> ConversationFuture<'_, Option<Vec<u8>>> {
        if self.broken {
            return Box::pin(async { Err(ConversationError("the disk is on fire".into())) });
        }
        let value = self.state.lock().unwrap().get(&key).cloned();
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(value)
        })
    }

    fn keys(&self, prefix: String) -> ConversationFuture<'_, Vec<(String, u64)>> {
        let state = self.state.lock().unwrap();
        let keys = state.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(k, v)| (k.clone(), v.len() as u64));
        let keys = keys.collect();
        Box::pin(async { Ok(keys) })
    }
}

/// Keeps events.
#[derive(Default)]
pub(super) struct Events(pub(super) Mutex<Vec<Event>>);

impl EventSink for Events {
    fn emit(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// Keeps log lines.
#[derive(Default)]
pub(super) struct Lines(pub(super) Mutex<Vec<(LogLevel, LogSource, String)>>);

impl BotLog for Lines {
    fn line(&self, line: LogLine<'_>) {
        assert_eq!(line.request, "request-1");
        self.0.lock().unwrap().push((line.level, line.source, line.text.to_owned()));
    }
}

pub(super) fn message(text: &str, timestamp: u64) -> PastMessage {
    PastMessage {
        message: Message {
            role: Role::User,
            text: text.into(),
            author: Some(Author { kind: "sender".into(), name: "Mia".into(), id: None }),
            attachments: Vec::new(),
            json: serde_json::json!({"role": "user", "content": text}).to_string(),
        },
        timestamp,
    }
}

/// A runtime, a bot, a session, and what came out.
pub(super) struct Stage {
    pub(super) runtime: Arc<Runtime>,
    pub(super) prepared: Arc<Prepared>,
    pub(super) limits: Limits,
    pub(super) session: Arc<Session>,
    pub(super) events: Arc<Events>,
    pub(super) lines: Arc<Lines>,
}

pub(super) fn options() -> RuntimeOptions {
    RuntimeOptions {
        threads: Some(2),
        ..RuntimeOptions::new(Compiler::InProcess, None, Arc::new(MemoryLedger::default()))
    }
}

impl Stage {
    pub(super) async fn new(name: &str) -> Self {
        Self::with(options(), name).await
    }

    pub(super) async fn with(options: RuntimeOptions, name: &str) -> Self {
        let runtime = Arc::new(Runtime::new(options, &Handle::current()).unwrap());
        let prepared = runtime.prepare(bot(name)).await.unwrap();
        Self {
            runtime,
            prepared,
            limits: Limits::default(),
            session: Arc::default(),
            events: Arc::default(),
            lines: Arc::default(),
        }
    }

    pub(super) fn make(&self, export: Export, text: &str) -> Call {
        Call {
            export,
            request: RequestInfo {
                id: "request-1".into(),
                session: "session-1".into(),
                group: "group-1".into(),
                tags: vec!["a".into(), "b".into()],
                deadline: 99,
                extensions: Some(r#"{"x":1}"#.into()),
            },
            message: message(text, 42),
            conversation: self.session.clone(),
            sink: self.events.clone(),
            cancel: CancelToken::default(),
        }
    }

    pub(super) async fn run(&self, call: Call) -> CallEnd {
        self.runtime.call(&self.prepared, &self.limits, self.lines.clone(), call).await
    }

    pub(super) async fn send(&self, text: &str) -> CallEnd {
        let end = self.run(self.make(Export::Send, text)).await;
        if end.result.is_ok() {
            self.session.commit(end.writes.clone());
        }
        end
    }

    pub(super) async fn inject(&self, text: &str) -> CallEnd {
        self.run(self.make(Export::Inject, text)).await
    }

    pub(super) async fn reply(&self, text: &str) -> String {
        self.send(text).await.result.unwrap().text
    }

    pub(super) async fn error(&self, text: &str) -> CallError {
        self.send(text).await.result.unwrap_err()
    }

    pub(super) fn limit(error: CallError) -> String {
        match error {
            CallError::Limit(text) => text,
            other => panic!("no limit: {other:?}"),
        }
    }
}

/// Waits for a condition.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
