#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::bot::tests::Session;
use crate::bot::{Limits, MemoryBudget, trial};

#[derive(Debug, Clone)]
enum Op {
    Set(String, usize),
    Delete(String),
    Get(String),
    Keys(String),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || "[ab]{0,2}";
    prop_oneof![
        3 => (key(), 0_usize..12).prop_map(|(key, size)| Op::Set(key, size)),
        2 => key().prop_map(Op::Delete),
        1 => key().prop_map(Op::Get),
        1 => key().prop_map(Op::Keys),
    ]
}

const MOST_BYTES: usize = 40;
const MOST_KEYS: usize = 4;

fn size(state: &BTreeMap<String, Vec<u8>>) -> usize {
    state.iter().map(|(key, value)| key.len() + value.len()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A call's view is that of a plain map, and so is what its writes make of the committed state.
    #[test]
    fn the_overlay_is_a_map(
        committed in proptest::collection::btree_map("[ab]{0,2}", proptest::collection::vec(any::<u8>(), 0..12), 0..4),
        ops in proptest::collection::vec(op(), 0..40),
    ) {
        let session = Arc::new(Session::default());
        *session.state.lock().unwrap() = committed.clone();
        let call = crate::bot::Call { conversation: session, ..trial::call() };
        let limits = Limits { state_bytes: MOST_BYTES, state_keys: MOST_KEYS, ..Limits::default() };
        let budget = Arc::new(MemoryBudget::new(0));
        let mut guest = GuestState::new(&call, &limits, trial::log(), budget);
        let mut model = committed.clone();
        for op in ops {
            match op {
                Op::Set(key, length) => {
                    let value = vec![7; length];
                    let mut next = model.clone();
                    next.insert(key.clone(), value.clone());
                    let fits = (size(&next) <= MOST_BYTES || size(&next) <= size(&model))
                        && (next.len() <= MOST_KEYS || next.len() == model.len());
                    let done = now(guest.set(key, value));
                    prop_assert_eq!(done.is_ok(), fits);
                    prop_assert_eq!(guest.take_hit().is_some(), !fits);
                    if fits {
                        model = next;
                    }
                }
                Op::Delete(key) => {
                    now(guest.delete(key.clone())).unwrap();
                    model.remove(&key);
                }
                Op::Get(key) => prop_assert_eq!(now(guest.get(key.clone())).unwrap(), model.get(&key).cloned()),
                Op::Keys(prefix) => {
                    let expected: Vec<String> =
                        model.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
                    prop_assert_eq!(now(guest.keys(prefix)).unwrap(), expected);
                }
            }
        }
        let writes = guest.session.take_writes();
        prop_assert!(writes.is_sorted_by(|a, b| a.key < b.key));
        prop_assert!(writes.len() <= committed.len() + MOST_KEYS.max(committed.len()));
        let mut state = committed;
        for write in writes {
            match write.value {
                Some(value) => state.insert(write.key, value),
                None => state.remove(&write.key),
            };
        }
        prop_assert_eq!(state, model);
    }
}

/// The test's session answers after at most one turn.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    for _ in 0..3 {
        if let Some(done) = future.as_mut().now_or_never() {
            return done;
        }
    }
    panic!("it waits for something");
}
