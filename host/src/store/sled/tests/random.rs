//! Random operations on the store and on the model, in groups of random size, with the store closed and opened in
//! between: every answer and the content at the end must be the same.

use std::pin::Pin;
use std::rc::Rc;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::model::Model;
use super::ops::{Op, ops};
use super::queue::hold;
use super::*;

/// What the store will answer, as text.
type Answer = Pin<Box<dyn Future<Output = String>>>;

macro_rules! answer {
    ($store:ident.$call:ident($($argument:expr),*)) => {{
        Box::pin(async move { debug($store.$call($($argument),*).await.unwrap()) })
    }};
}

fn debug(answer: impl std::fmt::Debug) -> String {
    plain(format!("{answer:?}"))
}

/// The same print most of the time, so that repeats are met and not only conflicts.
fn print(n: u8) -> Fingerprint {
    Fingerprint([u8::from(n == 0); 32])
}

/// The sentences of refusals are not the model's business, and event ids are random.
fn plain(text: String) -> String {
    let mut plain = text;
    for (start, end) in [("Conflict(\"", "\")"), ("Busy(\"", "\")"), ("event_id: \"", "\",")] {
        let mut from = 0;
        while let Some(found) = plain[from..].find(start) {
            let begin = from + found + start.len();
            let len = plain[begin..].find(end).unwrap();
            plain.replace_range(begin..begin + len, "");
            from = begin;
        }
    }
    plain
}

struct Pair {
    dir: tempfile::TempDir,
    store: Option<Rc<SledStore>>,
    model: Model,
}

impl Pair {
    fn store(&self) -> &SledStore {
        self.store.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        wait(self.store.take().unwrap().close());
        self.store = Some(Rc::new(open(self.dir.path())));
        self.model.reopen();
    }

    /// An operation on both: what the store will answer, and what it should.
    fn both(&mut self, op: Op, now: u64) -> (Answer, String) {
        let Self { store, model, .. } = self;
        let store = store.clone().unwrap();
        match op {
            Op::Admit { id, key, print: n, channel, size, bound } => {
                let bounds =
                    Admission { max_pending_session: bound, max_pending_total: bound * 2, ..admission(&id, &key, now) };
                let a = Admission { fingerprint: print(n), channel, message: message(&"m".repeat(size)), ..bounds };
                let expected = debug(model.admit(a.clone()));
                (answer!(store.admit(a)), expected)
            }
            Op::Inject { id, key, print: n, size, hook } => {
                let message = message(&"m".repeat(size));
                let i = Injection { fingerprint: print(n), message, ..injection(&id, &key, now, hook) };
                let expected = debug(model.inject(i.clone()));
                (answer!(store.inject(i)), expected)
            }
            Op::Injected { nth } => {
                let (at, key) = model.hooks.get(nth).cloned().unwrap_or_else(|| (1, key("a", "x")));
                let of_session = model.entries.get(&key).map(Vec::as_slice).unwrap_or_default();
                let found = of_session.iter().find(|entry| entry.at == at && entry.kind == EntryKind::Injected);
                (answer!(store.injected(key, at)), debug(found))
            }
            Op::InjectDone { nth, writes } => {
                let (at, key) = model.hooks.get(nth).cloned().unwrap_or_else(|| (1, key("a", "x")));
                model.inject_done(&key, at, writes.clone());
                (answer!(store.inject_done(key, at, writes)), debug(()))
            }
            Op::Start { id } => {
                let expected = debug(model.start(&id, now));
                (answer!(store.start(&id, now)), expected)
            }
            Op::Finish { id, outcome, writes, version } => {
                let f = Finish { writes, bot_version: version, ..finish(&id, outcome, now) };
                let expected = debug(model.finish(f.clone()));
                (answer!(store.finish(f)), expected)
            }
            Op::Abort { id, key, print: n } => {
                let a = Abort { fingerprint: print(n), ..abort(&id, &key, now) };
                let expected = debug(model.abort(&a));
                (answer!(store.abort(a)), expected)
            }
            Op::Run { id } => {
                let expected = debug(model.run(&id));
                (answer!(store.run(&id)), expected)
            }
            Op::History { key, before, after, limit, max_bytes } => {
                let query = HistoryQuery { key, before, after, limit, max_bytes };
                let expected = debug(history(model, &query));
                (answer!(store.history(query)), expected)
            }
            Op::Context { key, message_at, limit, max_bytes } => {
                let query = ContextQuery { key, message_at, limit, max_bytes };
                let expected = debug(context(model, &query));
                (answer!(store.context(query)), expected)
            }
            Op::Take { limit, lease_ms } => {
                (answer!(store.outbox_take(now, limit, lease_ms)), debug(model.outbox_take(now, limit, lease_ms)))
            }
            Op::Settle { id, settlement } => {
                model.outbox_settle(&id, settlement.clone());
                (answer!(store.outbox_settle(&id, settlement)), debug(()))
            }
            Op::Recover { rerun } => {
                let expected = debug(model.recover(now, &rerun));
                (answer!(store.recover(now, rerun)), expected)
            }
            Op::Expire { ids_ms, budget } => {
                let retention = Retention { ids_ms };
                (answer!(store.expire(now, retention, budget)), debug(model.expire(now, retention, budget)))
            }
            Op::Reopen => (Box::pin(std::future::ready(debug(()))), debug(())),
        }
    }

    /// All there is, from both.
    fn content(&mut self) -> (String, String) {
        let (mut real, mut model) = (Vec::new(), Vec::new());
        for n in 0..14 {
            real.push(format!("{:?}", wait(self.store().run(&format!("id{n}")))));
            model.push(format!("{:?}", self.model.run(&format!("id{n}"))));
        }
        for key in [key("a", "x"), key("a", ""), key("b", "x")] {
            real.push(format!("{:?}", wait(self.store().history(all(&key)))));
            model.push(format!("{:?}", history(&self.model, &all(&key))));
            let state = self.model.state.get(&key).cloned().unwrap_or_default();
            for (name, value) in &state {
                real.push(format!("{:?}", wait(self.store().state_get(key.clone(), name.clone())).as_ref()));
                model.push(format!("{:?}", Some(value)));
            }
            for prefix in ["", "k"] {
                real.push(format!("{:?}", wait(self.store().state_keys(key.clone(), prefix.into()))));
                let named = state.iter().filter(|(name, _)| name.starts_with(prefix));
                model.push(format!("{:?}", named.map(|(name, value)| (name, value.len())).collect::<Vec<_>>()));
            }
        }
        real.push(format!("{:?}", StoreStats { disk_bytes: 0, ..wait(self.store().stats()) }));
        model.push(format!("{:?}", self.model.stats()));
        (real.join("\n"), model.join("\n"))
    }
}

fn size(entry: &Entry) -> usize {
    entry.message.message.get().len()
}

fn history(model: &Model, query: &HistoryQuery) -> HistoryPage {
    let wanted = |entry: &&Entry| {
        query.before.is_none_or(|before| entry.at < before) && query.after.is_none_or(|after| entry.at > after)
    };
    let entries = model.entries.get(&query.key).map(Vec::as_slice).unwrap_or_default();
    let mut entries: Vec<Entry> = entries.iter().filter(wanted).cloned().collect();
    if query.after.is_none() {
        entries.reverse();
    }
    let total = entries.len();
    let mut bytes = 0usize;
    let fits = |(n, entry): &(usize, &Entry)| {
        bytes += size(entry);
        *n < query.limit && (*n == 0 || bytes <= query.max_bytes)
    };
    let kept = entries.iter().enumerate().take_while(fits).count();
    entries.truncate(kept);
    if query.after.is_none() {
        entries.reverse();
    }
    HistoryPage { entries, has_more: kept < total }
}

fn context(model: &Model, query: &ContextQuery) -> Vec<Entry> {
    let entries = model.entries.get(&query.key).map(Vec::as_slice).unwrap_or_default();
    let seen =
        |entry: &&Entry| entry.at < query.message_at || (entry.at > query.message_at && entry.kind != EntryKind::Sent);
    let mut bytes = 0usize;
    let fits = |entry: &&Entry| {
        bytes += size(entry);
        bytes <= query.max_bytes
    };
    let mut kept: Vec<Entry> = entries.iter().rev().filter(seen).take(query.limit).take_while(fits).cloned().collect();
    kept.reverse();
    kept
}

/// Few cases unless `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 48 };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_store_does_what_the_model_does(
        groups in prop::collection::vec(prop::collection::vec((0..8u64, ops()), 1..10), 1..25)
    ) {
        let (dir, store) = temp();
        let mut pair = Pair { dir, store: Some(Rc::new(store)), model: Model::default() };
        let mut now = 1000;
        for group in groups {
            // The storage thread gets the whole group at once.
            let go = hold(pair.store());
            let mut waiting = Vec::new();
            let mut reopen = false;
            for (ms, op) in group {
                now += ms;
                reopen |= matches!(op, Op::Reopen);
                let name = format!("{op:?}");
                let (mut real, model) = pair.both(op, now);
                let real = match (&mut real).now_or_never() {
                    Some(text) => Box::pin(std::future::ready(text)),
                    None => real,
                };
                waiting.push((name, real, model));
            }
            drop(go);
            for (name, real, model) in waiting {
                let real = try_wait(real);
                prop_assert!(real == model, "{name}\nreal  {real}\nmodel {model}");
            }
            if reopen {
                pair.reopen();
            }
        }
        let (real, model) = pair.content();
        prop_assert!(real == model, "content\nreal  {real}\n\nmodel {model}");
        pair.reopen();
        let (real, model) = pair.content();
        prop_assert!(real == model, "content when opened again\nreal  {real}\n\nmodel {model}");
    }
}
