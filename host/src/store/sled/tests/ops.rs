//! Random operations.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::wire::RunError;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Admit { id: String, key: SessionKey, print: u8, channel: Channel, size: usize, bound: usize },
    Inject { id: String, key: SessionKey, print: u8, size: usize, hook: bool },
    Injected { nth: usize },
    InjectDone { nth: usize, writes: Vec<StateWrite> },
    Start { id: String },
    Finish { id: String, outcome: Outcome, writes: Vec<StateWrite>, version: Option<String> },
    Abort { id: String, key: SessionKey, print: u8 },
    Run { id: String },
    History { key: SessionKey, before: Option<u64>, after: Option<u64>, limit: usize, max_bytes: usize },
    Context { key: SessionKey, message_at: u64, limit: usize, max_bytes: usize },
    Take { limit: usize, lease_ms: u64 },
    Settle { id: String, settlement: Settlement },
    Recover { rerun: Vec<BotRef> },
    Expire { ids_ms: u64, budget: usize },
    Reopen,
}

fn ids() -> impl Strategy<Value = String> {
    (0..14u8).prop_map(|n| format!("id{n}"))
}

fn sessions() -> impl Strategy<Value = SessionKey> {
    select(vec![key("a", "x"), key("a", ""), key("b", "x")])
}

fn writes() -> impl Strategy<Value = Vec<StateWrite>> {
    let value = prop::option::weighted(0.7, (select(vec![0, 3, 13_000]), any::<u8>()));
    let write = (select(vec!["k", "k2", "l", ""]), value)
        .prop_map(|(name, value)| StateWrite { key: name.into(), value: value.map(|(len, byte)| vec![byte; len]) });
    prop::collection::vec(write, 0..4)
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => (select(vec![0, 5, 7_000, 20_000]), prop::option::of(Just("end".to_owned())))
            .prop_map(|(len, stop_reason)| Outcome::Completed { text: "y".repeat(len), stop_reason }),
        1 => Just(Outcome::Failed { error: RunError::new("trap", "it fell") }),
        1 => Just(Outcome::TimedOut { error: RunError::new("timeout", "too late") }),
    ]
}

fn settlements() -> impl Strategy<Value = Settlement> {
    prop_oneof![
        Just(Settlement::Delivered),
        (0..3usize).prop_map(|done| Settlement::Progress { done }),
        (1000..1500u64).prop_map(|at| Settlement::Retry { at, error: "refused".into() }),
        Just(Settlement::Dead { error: "gone".into() }),
    ]
}

pub(super) fn ops() -> impl Strategy<Value = Op> {
    let size = || select(vec![1, 20, 9_000]);
    let at = || 990..1400u64;
    let bytes = || select(vec![0, 100, 400, 12_000, usize::MAX]);
    prop_oneof![
        6 => (ids(), sessions(), 0..5u8, select(vec![Channel::Sse, Channel::CallbackV1, Channel::CallbackV2]), size(), 1..8usize)
            .prop_map(|(id, key, print, channel, size, bound)| Op::Admit { id, key, print, channel, size, bound }),
        2 => (ids(), sessions(), 0..5u8, size(), any::<bool>())
            .prop_map(|(id, key, print, size, hook)| Op::Inject { id, key, print, size, hook }),
        1 => (0..4usize).prop_map(|nth| Op::Injected { nth }),
        1 => (0..4usize, writes()).prop_map(|(nth, writes)| Op::InjectDone { nth, writes }),
        6 => ids().prop_map(|id| Op::Start { id }),
        5 => (ids(), outcomes(), writes(), prop::option::of(Just("v1".to_owned())))
            .prop_map(|(id, outcome, writes, version)| Op::Finish { id, outcome, writes, version }),
        2 => (ids(), sessions(), 0..5u8).prop_map(|(id, key, print)| Op::Abort { id, key, print }),
        1 => ids().prop_map(|id| Op::Run { id }),
        2 => (sessions(), prop::option::of(at()), prop::option::of(at()), 0..5usize, bytes()).prop_map(
            |(key, before, after, limit, max_bytes)| Op::History { key, before, after, limit, max_bytes }
        ),
        2 => (sessions(), at(), 0..5usize, bytes())
            .prop_map(|(key, message_at, limit, max_bytes)| Op::Context { key, message_at, limit, max_bytes }),
        2 => (0..4usize, 0..100u64).prop_map(|(limit, lease_ms)| Op::Take { limit, lease_ms }),
        3 => (ids(), settlements()).prop_map(|(id, settlement)| Op::Settle { id, settlement }),
        1 => prop::collection::vec(select(vec!["a", "b"]), 0..2)
            .prop_map(|bots| Op::Recover { rerun: bots.into_iter().map(|bot| BotRef::parse(bot).unwrap()).collect() }),
        1 => (0..150u64, 0..6usize).prop_map(|(ids_ms, budget)| Op::Expire { ids_ms, budget }),
        1 => Just(Op::Reopen),
    ]
}
