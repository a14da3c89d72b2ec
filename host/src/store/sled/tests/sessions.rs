//! Transcripts and state.

use super::*;

#[test]
fn places_rise_though_the_clock_does_not() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    for (n, now) in [1000, 1000, 900, 2000, 0].into_iter().enumerate() {
        wait(store.inject(injection(&format!("i{n}"), &session, now, false)));
    }
    let places: Vec<u64> = wait(store.history(all(&session))).entries.iter().map(|entry| entry.at).collect();
    assert_eq!(places, [1000, 1001, 1002, 2000, 2001]);
}

#[test]
fn paging_gives_each_of_ten_thousand_messages_once() {
    const MESSAGES: usize = 10_000;
    let (_dir, store) = temp();
    let session = key("bot", "s");
    try_wait(async {
        // A burst: many of them in one millisecond.
        for n in 0..MESSAGES {
            drop(store.inject(injection(&format!("{n}"), &session, 1000 + n as u64 / 100, false)));
        }
    });
    let expected: Vec<String> = (0..MESSAGES).map(|n| n.to_string()).collect();
    let (mut backward, mut before) = (Vec::new(), None);
    loop {
        let query = HistoryQuery { before, limit: 97, ..all(&session) };
        let page = wait(store.history(query));
        before = page.entries.first().map(|entry| entry.at);
        backward.splice(0..0, page.entries.into_iter().map(|entry| entry.id));
        if !page.has_more {
            break;
        }
    }
    assert_eq!(backward, expected);
    let (mut forward, mut after) = (Vec::new(), Some(0));
    loop {
        let page = wait(store.history(HistoryQuery { after, limit: 1000, ..all(&session) }));
        after = page.entries.last().map(|entry| entry.at);
        forward.extend(page.entries.into_iter().map(|entry| entry.id));
        if !page.has_more {
            break;
        }
    }
    assert_eq!(forward, expected);
}

#[test]
fn pages_keep_to_their_bounds() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    for n in 1..=5 {
        wait(store.inject(injection(&format!("{n}"), &session, n * 10, false)));
    }
    let one = message("1").message.get().len();
    let page = |query: HistoryQuery| {
        let page = wait(store.history(query));
        (page.entries.iter().map(|entry| entry.at).collect::<Vec<_>>(), page.has_more)
    };
    assert_eq!(page(all(&session)), (vec![10, 20, 30, 40, 50], false));
    assert_eq!(page(HistoryQuery { limit: 2, ..all(&session) }), (vec![40, 50], true));
    assert_eq!(page(HistoryQuery { limit: 2, before: Some(20), ..all(&session) }), (vec![10], false));
    assert_eq!(page(HistoryQuery { limit: 2, after: Some(20), ..all(&session) }), (vec![30, 40], true));
    assert_eq!(page(HistoryQuery { after: Some(9), before: Some(31), ..all(&session) }), (vec![10, 20, 30], false));
    assert_eq!(page(HistoryQuery { after: Some(40), before: Some(20), ..all(&session) }), (vec![], false));
    assert_eq!(page(HistoryQuery { max_bytes: 2 * one, ..all(&session) }), (vec![40, 50], true));
    assert_eq!(page(HistoryQuery { max_bytes: 0, ..all(&session) }), (vec![50], true));
    assert_eq!(page(HistoryQuery { limit: 0, ..all(&session) }), (vec![], true));
    assert_eq!(page(all(&key("bot", "other"))), (vec![], false));
}

#[test]
fn a_bot_does_not_see_the_messages_behind_its_own() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    ended(&store, "r1", &session, 10, "one");
    wait(store.inject(injection("i1", &session, 20, false)));
    wait(store.admit(admission("r2", &session, 30)));
    wait(store.admit(admission("r3", &session, 40)));
    wait(store.inject(injection("i2", &session, 50, false)));
    let query = ContextQuery { key: session.clone(), message_at: 30, limit: 10, max_bytes: usize::MAX };
    let seen = |query: ContextQuery| wait(store.context(query)).into_iter().map(|entry| entry.id).collect::<Vec<_>>();
    assert_eq!(seen(query.clone()), ["r1", "r1:reply", "i1", "i2"]);
    assert_eq!(seen(ContextQuery { limit: 2, ..query.clone() }), ["i1", "i2"]);
    assert_eq!(seen(ContextQuery { limit: 0, ..query.clone() }), [""; 0]);
    let one = message("i1").message.get().len();
    assert_eq!(seen(ContextQuery { max_bytes: one, ..query.clone() }), ["i2"]);
    assert_eq!(seen(ContextQuery { max_bytes: one - 1, ..query.clone() }), [""; 0]);
    assert_eq!(seen(ContextQuery { message_at: 40, ..query }), ["r1", "r1:reply", "i1", "r2", "i2"]);
}

#[test]
fn sessions_and_names_are_told_apart_byte_for_byte() {
    let (_dir, store) = temp();
    let long = "l".repeat(300);
    let longer = "l".repeat(301);
    let sessions = [
        key("a", ""),
        key("a", "b"),
        key("ab", ""),
        key("a", "bc"),
        key("a", " b"),
        key("a", "\0"),
        key("a", "B"),
        key("a", "e\u{301}"),
        key("a", "\u{e9}"),
        key("a", &long),
        key("a", &longer),
        key(&"a".repeat(256), &long),
    ];
    let names = ["", "k", "k1", "\0", "\u{1F980}", &long, &longer];
    for (n, session) in sessions.iter().enumerate() {
        wait(store.inject(injection(&format!("{long}{n}"), session, 1, true)));
        let writes = names.iter().map(|name| set(name, format!("{n}{name}").as_bytes())).collect();
        wait(store.inject_done(session.clone(), 1, writes));
    }
    let mut sorted = names;
    sorted.sort_unstable();
    for (n, session) in sessions.iter().enumerate() {
        assert_eq!(ids(&wait(store.history(all(session))).entries), [format!("{long}{n}")]);
        let found = wait(store.state_keys(session.clone(), String::new()));
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), sorted);
        for name in names {
            let value = format!("{n}{name}").into_bytes();
            assert_eq!(wait(store.state_get(session.clone(), name.into())), Some(value));
        }
        let found = wait(store.state_keys(session.clone(), "k".into()));
        assert_eq!(
            found,
            [("k".into(), 1 + n.to_string().len() as u64), ("k1".into(), 2 + n.to_string().len() as u64)]
        );
    }
}

#[test]
fn an_injected_message_owes_its_hook_once() {
    let (dir, store) = temp();
    let session = key("bot", "s");
    wait(store.inject(injection("i1", &session, 10, true)));
    wait(store.inject(injection("i2", &session, 20, false)));
    wait(store.admit(admission("r", &session, 30)));
    assert_eq!(wait(store.injected(session.clone(), 10)).unwrap().id, "i1");
    assert!(wait(store.injected(session.clone(), 30)).is_none(), "not an injected one");
    assert_eq!(wait(store.recover(40, Vec::new())).hooks, [(session.clone(), 10)]);
    wait(store.inject_done(session.clone(), 10, vec![set("a", b"1"), set("b", b"2"), set("a", b"3")]));
    wait(store.inject_done(session.clone(), 10, vec![set("a", b"4")]));
    wait(store.inject_done(session.clone(), 20, vec![set("a", b"5")]));
    wait(store.close());
    let store = open(dir.path());
    assert_eq!(wait(store.recover(50, Vec::new())).hooks, []);
    assert_eq!(wait(store.state_get(session.clone(), "a".into())), Some(b"3".to_vec()));
    assert_eq!(wait(store.state_keys(session, String::new())), [("a".into(), 1), ("b".into(), 1)]);
}

#[test]
fn large_values_live_in_small_pieces_and_go_whole() {
    let (dir, store) = temp();
    let session = key("bot", "s");
    let text: String =
        (0..700_000u32).map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 27) as u8 % 26)).collect();
    wait(store.admit(Admission { message: message(&text), ..admission("r", &session, 1) }));
    wait(store.start("r", 1));
    let value = text.clone().into_bytes();
    wait(store.finish(Finish { writes: vec![set("k", &value)], ..finish("r", completed(&text), 2) }));
    for size in [6_000, 6_001, 12_000, 30_001, 0] {
        let id = format!("s{size}");
        wait(store.inject(injection(&id, &session, 3, true)));
        let at = wait(store.history(all(&session))).entries.last().unwrap().at;
        wait(store.inject_done(session.clone(), at, vec![set("k", &value[..size])]));
        assert_eq!(wait(store.state_get(session.clone(), "k".into())).unwrap(), &value[..size]);
    }
    wait(store.close());
    let store = open(dir.path());
    assert_eq!(wait(store.run("r")).unwrap().outcome, Some(completed(&text)));
    let entries = wait(store.history(all(&session))).entries;
    assert_eq!(entries[0].message.message.get(), message(&text).message.get());
    // What was overwritten left no pieces behind, and sled made no file of its own for any page.
    let pieces = wait(store.queue.read(|engine| Ok(engine.db().scan_prefix(b"zw").count())));
    assert_eq!(pieces, 0);
    assert_eq!(std::fs::read_dir(dir.path().join("sled/blobs")).unwrap().count(), 0);
}
