//! `chat.history`: a page of a session's transcript (reference, section 3.2).

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::Bcs;
use super::super::answer::{self, Ack, Meta, OkFalse, Reply};
use super::super::error::SimError;
use super::super::request::{Kind, Request};
use super::super::violation::{Notes, ViolationKind};
use super::OTHER_TIMEOUT_MS;

/// How many messages a page has when the request does not say, and at most.
const DEFAULT_LIMIT: u64 = 50;
const MAX_LIMIT: u64 = 1000;

/// `chat.history`
#[derive(Debug, Clone, Copy)]
pub struct HistoryMethod;

/// A page of a transcript.
#[derive(Debug, Clone)]
pub struct HistoryAnswer {
    /// Status, headers and times.
    pub meta: Meta,
    /// `messages`.
    pub messages: Vec<Map<String, Value>>,
    /// `has_more`.
    pub has_more: bool,
    /// `next_before`.
    pub next_before: Option<u64>,
    /// `next_after`.
    pub next_after: Option<u64>,
}

impl HistoryAnswer {
    /// The texts of the messages, in the order of the page; of all blocks, as the server puts them together.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.messages.iter().map(|message| content_text(message.get("content"))).collect()
    }
}

fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

impl Bcs {
    /// A `chat.history` without cursors or limit.
    #[must_use]
    pub fn history(&self, bot: &str, session: &str) -> Request<HistoryMethod> {
        Request::new(self, "chat.history", bot, session, OTHER_TIMEOUT_MS)
    }
}

impl Request<HistoryMethod> {
    /// `before`, Unix milliseconds, exclusive.
    #[must_use]
    pub fn before(self, ms: u64) -> Self {
        self.field("before", ms)
    }

    /// `after`, Unix milliseconds, exclusive.
    #[must_use]
    pub fn after(self, ms: u64) -> Self {
        self.field("after", ms)
    }

    /// `limit`.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        self.field("limit", limit)
    }
}

impl Kind for HistoryMethod {
    type Answer = Reply<HistoryAnswer>;

    async fn perform(request: Request<Self>) -> Result<Self::Answer, SimError> {
        let sent = request.post().await?;
        let reply = answer::read(&request.bcs, request.request_id(), sent, OkFalse::Noted).await?;
        Ok(match reply.map(|ack| read(ack, &request.body)) {
            Reply::Accepted((answer, notes)) => {
                request.bcs.inner.state().note_all(request.request_id(), notes);
                Reply::Accepted(answer)
            }
            other => other.map(|(answer, _)| answer),
        })
    }
}

fn read(ack: Ack, asked: &Map<String, Value>) -> (HistoryAnswer, Notes) {
    let mut notes = Notes::new();
    let mut wrong = |what: String| notes.push((ViolationKind::HistoryShape, what));
    let body = &ack.body;
    let mut messages = Vec::new();
    match body.get("messages") {
        Some(Value::Array(list)) => {
            for message in list {
                match message {
                    Value::Object(message) => messages.push(message.clone()),
                    _ => wrong("a message is no object".to_owned()),
                }
            }
        }
        _ => wrong("`messages` is missing or no array".to_owned()),
    }
    let has_more = body.get("has_more").and_then(Value::as_bool);
    if has_more.is_none() {
        wrong("`has_more` is missing or no boolean".to_owned());
    }
    let mut cursor = |name: &str| match body.get(name) {
        None | Some(Value::Null) => None,
        Some(value) => {
            if !value.is_u64() {
                wrong(format!("`{name}` is {value}"));
            }
            value.as_u64()
        }
    };
    let (next_before, next_after) = (cursor("next_before"), cursor("next_after"));
    if body.get("session_id").is_some_and(|id| !id.is_null() && Some(id) != asked.get("session_id")) {
        wrong("`session_id` is not the one that was asked for".to_owned());
    }
    let answer =
        HistoryAnswer { meta: ack.meta, messages, has_more: has_more.unwrap_or(false), next_before, next_after };
    check_page(&answer, asked, &mut wrong);
    (answer, notes)
}

fn check_page(page: &HistoryAnswer, asked: &Map<String, Value>, wrong: &mut impl FnMut(String)) {
    let asked = |name: &str| asked.get(name).and_then(Value::as_u64);
    let limit = asked("limit").unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    if page.messages.len() as u64 > limit {
        wrong(format!("the page has {} messages, more than {limit}", page.messages.len()));
    }
    let mut ids = HashSet::new();
    let mut times = Vec::new();
    for message in &page.messages {
        if !message.get("role").is_some_and(Value::is_string) {
            wrong("a message has no `role`: the server skips it".to_owned());
        }
        if !message.get("content").is_some_and(|content| content.is_string() || content.is_array()) {
            wrong("a message has no `content` that is text or an array".to_owned());
        }
        match message.get("timestamp").and_then(Value::as_u64) {
            Some(time) => times.push(time),
            None => wrong("a message has no `timestamp` that is a whole number of milliseconds".to_owned()),
        }
        match message.get("id").and_then(Value::as_str) {
            Some(id) if !ids.insert(id) => wrong(format!("the id {id:?} is there twice")),
            Some(_) => {}
            None => wrong("a message has no `id`".to_owned()),
        }
    }
    if times.iter().any(|time| asked("before").is_some_and(|before| *time >= before)) {
        wrong("a message is not before `before`".to_owned());
    }
    if times.iter().any(|time| asked("after").is_some_and(|after| *time <= after)) {
        wrong("a message is not after `after`".to_owned());
    }
    if !times.is_sorted() && !times.is_sorted_by(|a, b| a >= b) {
        wrong("the messages are in no order of time".to_owned());
    }
    let (oldest, newest) = (times.iter().min().copied(), times.iter().max().copied());
    match (page.has_more, asked("after")) {
        (true, None) if page.next_before != oldest => {
            wrong(format!("there is more, but `next_before` is {:?}, not the oldest time", page.next_before));
        }
        (true, Some(_)) if page.next_after != newest => {
            wrong(format!("there is more, but `next_after` is {:?}, not the newest time", page.next_after));
        }
        _ => {}
    }
}
