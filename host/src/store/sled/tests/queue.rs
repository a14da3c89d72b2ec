//! The queue before the storage thread.

use std::sync::mpsc;

use futures_util::FutureExt;

use super::*;

/// Holds the storage thread until the sender is used or dropped.
pub(super) fn hold(store: &SledStore) -> mpsc::Sender<()> {
    let (go, wait_for_it) = mpsc::channel::<()>();
    let (here, at_it) = mpsc::channel();
    drop(store.queue.write(move |_| {
        here.send(()).unwrap();
        let _ = wait_for_it.recv();
        Ok(())
    }));
    at_it.recv().unwrap();
    go
}

#[test]
fn a_dropped_write_is_carried_out_however_far_it_came() {
    let (_dir, store) = temp();
    let go = hold(&store);
    // Never looked at.
    drop(store.put_artifact("new", [1; 32]));
    // Handed over and dropped while it waits for its answer.
    let mut waiting = store.put_artifact("waiting", [1; 32]);
    assert!((&mut waiting).now_or_never().is_none());
    drop(waiting);
    // More than there is room for: the last of them are dropped while they wait for room.
    let mut crowd: Vec<_> = (0..3000).map(|n| store.put_artifact(&n.to_string(), [2; 32])).collect();
    assert!(crowd.iter_mut().all(|future| future.now_or_never().is_none()));
    drop(crowd);
    drop(go);
    for name in ["new", "waiting", "0", "1500", "2999"] {
        assert!(wait(store.artifact(name)).is_some(), "{name}");
    }
}

#[test]
fn a_full_queue_holds_its_callers_back() {
    let (_dir, store) = temp();
    let go = hold(&store);
    let mut crowd: Vec<_> = (0..2000).map(|n| store.put_artifact(&n.to_string(), [2; 32])).collect();
    assert!(crowd.iter_mut().all(|future| future.now_or_never().is_none()));
    drop(go);
    let results = try_wait(futures_util::future::join_all(crowd));
    assert_eq!(results.len(), 2000);
    assert!(results.iter().all(Result::is_ok));
}

#[test]
fn operations_of_one_caller_keep_their_order() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    let go = hold(&store);
    let admission = |n: usize| Admission { max_pending_session: 9999, ..admission(&n.to_string(), &session, 5) };
    let mut admits: Vec<_> = (0..700).map(|n| store.admit(admission(n))).collect();
    assert!(admits.iter_mut().all(|future| future.now_or_never().is_none()));
    drop(go);
    let answers = try_wait(futures_util::future::join_all(admits));
    for (n, answer) in answers.into_iter().enumerate() {
        assert!(matches!(answer, Ok(Admitted::New(run)) if run.message_at == 5 + n as u64));
    }
}

#[test]
fn close_comes_after_what_was_asked_before_and_ends_what_comes_after() {
    let (dir, store) = temp();
    let go = hold(&store);
    let mut before = store.put_artifact("before", [1; 32]);
    assert!((&mut before).now_or_never().is_none());
    let close = store.close();
    let mut after = store.put_artifact("after", [1; 32]);
    assert!((&mut after).now_or_never().is_none());
    drop(go);
    let (before, close, after) = (try_wait(before), try_wait(close), try_wait(after));
    assert!(before.is_ok() && close.is_ok());
    assert!(matches!(after, Err(StoreError::Closed)));
    let store = open(dir.path());
    assert_eq!(wait(store.artifact("before")), Some([1; 32]));
    assert_eq!(wait(store.artifact("after")), None);
}

#[test]
fn dropping_the_store_ends_its_thread_and_keeps_what_was_asked() {
    let (dir, store) = temp();
    drop(store.put_artifact("k", [1; 32]));
    drop(store);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let store = loop {
        match SledStore::open(OpenOptions::new(dir.path())) {
            Ok(store) => break store,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    };
    assert_eq!(wait(store.artifact("k")), Some([1; 32]));
}
