//! Damaged records, and an engine that gives up.

use super::*;

fn damage(store: &SledStore, key: Vec<u8>) {
    wait(store.queue.write(move |engine| {
        // The mark of a whole record, then half of one.
        engine.db().insert(key, b"\0{\"url\":\"https://secret\"".as_slice()).unwrap();
        Ok(())
    }));
}

#[test]
fn a_damaged_record_is_named_and_the_others_stay_readable() {
    let (_dir, store) = temp();
    let session = key("bot", "s\n");
    for id in ["r1", "r\n2", "r3"] {
        ended(&store, id, &session, 10, "reply");
    }
    damage(&store, keys::run("r\n2"));
    damage(&store, keys::entry(&session, 12, EntryKind::Sent));
    let Err(StoreError::Damaged(what)) = try_wait(store.run("r\n2")) else { panic!() };
    assert_eq!(what, r#"the run at key "r\x00r\n2" cannot be read, at line 1 column 23"#);
    assert!(matches!(try_wait(store.admit(admission("r\n2", &session, 1))), Err(StoreError::Damaged(_))));
    assert!(wait(store.run("r1")).is_some() && wait(store.run("r3")).is_some());
    let page = wait(store.history(HistoryQuery { limit: 5, ..all(&session) }));
    assert_eq!((ids(&page.entries), page.has_more), (vec!["r1", "r1:reply", "r\n2:reply", "r3", "r3:reply"], false));
    let query = ContextQuery { key: session, message_at: 14, limit: 9, max_bytes: usize::MAX };
    assert_eq!(ids(&wait(store.context(query))), ["r1", "r1:reply", "r\n2:reply", "r3:reply"]);
}

#[test]
fn upkeep_passes_over_damage() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    for id in ["e1", "e2", "e3"] {
        ended(&store, id, &session, 10, "");
    }
    for id in ["p1", "p2", "p3"] {
        wait(store.admit(admission(id, &session, 10)));
        wait(store.inject(injection(&format!("i{id}"), &key("bot", id), 10, true)));
    }
    for id in ["n1", "n2"] {
        wait(store.admit(admission(id, &key("bot", "t"), 10)));
        wait(store.start(id, 10));
    }
    damage(&store, keys::outbox("e1"));
    damage(&store, keys::run("p1"));
    damage(&store, keys::run("n1"));
    damage(&store, keys::hook(&key("bot", "p2"), 10));

    let batch = wait(store.outbox_take(10, 2, 100));
    assert_eq!(batch.entries.iter().map(|e| e.run_id.as_str()).collect::<Vec<_>>(), ["e2", "e3"]);
    assert_eq!(wait(store.abort(abort("a", &key("bot", "t"), 11))), AbortAnswer::Aborted(vec!["n2".into()]));
    let recovery = wait(store.recover(20, Vec::new()));
    assert_eq!(recovery.pending.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["p2", "p3"]);
    assert_eq!(recovery.hooks, [(key("bot", "p1"), 10), (key("bot", "p3"), 10)]);
    for id in ["e2", "e3"] {
        wait(store.outbox_settle(id, Settlement::Delivered));
    }
    damage(&store, keys::expiry(10, "e2"));
    assert_eq!(wait(store.expire(50, Retention { ids_ms: 0 }, 100)), 5, "e3, a, three injects");
}

#[test]
fn a_missing_or_short_piece_is_damage() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    let at = |id: &str, now: u64| {
        wait(store.inject(injection(id, &session, now, true)));
        wait(store.inject_done(session.clone(), now, vec![set(id, &[7; 20_000])]));
        keys::chunk(&keys::state_value(&session, id), 1)
    };
    let (missing, short) = (at("missing", 1), at("short", 2));
    wait(store.queue.write(move |engine| {
        engine.db().remove(missing).unwrap();
        engine.db().insert(short, b"x").unwrap();
        Ok(())
    }));
    for (name, what) in [("missing", "lacks a piece"), ("short", "has a wrong length")] {
        let Err(StoreError::Damaged(sentence)) = try_wait(store.state_get(session.clone(), name.into())) else {
            panic!()
        };
        assert!(sentence.starts_with("the state value at key") && sentence.ends_with(what), "{sentence}");
    }
}

#[test]
fn a_panic_of_the_engine_answers_everyone_and_refuses_the_rest() {
    let (dir, store) = temp();
    wait(store.put_artifact("k", [1; 32]));
    let results: [Result<(), StoreError>; 3] = try_wait(async {
        let (before, during, after) = (
            store.put_artifact("before", [1; 32]),
            store.queue.write(|_| -> Result<(), StoreError> { panic!("a panic that belongs to this test") }),
            store.put_artifact("after", [1; 32]),
        );
        let (before, during, after) = futures_util::future::join3(before, during, after).await;
        [before, during, after]
    });
    assert!(matches!(results[1], Err(StoreError::Failed(_))), "{results:?}");
    assert!(matches!(results[2], Err(StoreError::Failed(_))), "{results:?}");
    let Err(StoreError::Failed(sentence)) = try_wait(store.artifact("k")) else { panic!() };
    assert!(sentence.contains("start avernest again"), "{sentence}");
    assert!(matches!(try_wait(store.close()), Err(StoreError::Failed(_))));
    // In this process its files stay taken.
    assert!(SledStore::open(OpenOptions::new(dir.path())).is_err());
}
