//! Runs: admission, start, end, abort.

use super::*;
use crate::wire::{RunError, RunState};

#[test]
fn an_id_is_admitted_once() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    let Admitted::New(run) = wait(store.admit(admission("r1", &session, 1000))) else { panic!() };
    assert_eq!((run.state, run.message_at, run.admitted_at, run.deadline), (RunState::Pending, 1000, 1000, 11_000));
    assert_eq!(run.extensions.as_ref().unwrap().get(), r#"{"n": 1.50}"#);

    let Admitted::Repeat(again) = wait(store.admit(admission("r1", &session, 2000))) else { panic!() };
    assert_eq!(format!("{again:?}"), format!("{run:?}"));
    let other = Admission { fingerprint: Fingerprint([2; 32]), ..admission("r1", &session, 2000) };
    let Admitted::Conflict(sentence) = wait(store.admit(other)) else { panic!() };
    assert_eq!(sentence, r#"id "r1" was used before, for a chat.send with another body: use a fresh id"#);
    assert_eq!(wait(store.history(all(&session))).entries.len(), 1);
    assert_eq!(wait(store.stats()).pending, 1);
}

#[test]
fn the_ids_of_all_methods_are_one_name_space() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    wait(store.admit(admission("send", &session, 1)));
    assert_eq!(wait(store.inject(injection("inject", &session, 2, false))), Injected::New { at: 2 });
    assert_eq!(wait(store.abort(abort("abort", &session, 3))), AbortAnswer::Idle);

    for (id, method) in [("inject", "chat.inject"), ("abort", "chat.abort")] {
        let Admitted::Conflict(sentence) = wait(store.admit(admission(id, &session, 4))) else { panic!() };
        assert_eq!(sentence, format!("id {id:?} was used before, for a {method}: use a fresh id for this chat.send"));
    }
    for id in ["send", "abort"] {
        assert!(matches!(wait(store.inject(injection(id, &session, 4, false))), Injected::Conflict(_)));
    }
    for id in ["send", "inject"] {
        assert!(matches!(wait(store.abort(abort(id, &session, 4))), AbortAnswer::Conflict(_)));
    }
    assert_eq!(wait(store.inject(injection("inject", &session, 9, true))), Injected::Repeat);
}

#[test]
fn bounds_refuse_what_is_new_but_not_a_repeat() {
    let (_dir, store) = temp();
    let (one, two) = (key("bot", "1"), key("bot", "2"));
    let bounded = |id: &str, session: &SessionKey| Admission {
        max_pending_session: 2,
        max_pending_total: 3,
        ..admission(id, session, 1)
    };
    for id in ["a", "b"] {
        assert!(matches!(wait(store.admit(bounded(id, &one))), Admitted::New(_)));
    }
    let Admitted::Busy(sentence) = wait(store.admit(bounded("c", &one))) else { panic!() };
    assert!(sentence.starts_with("2 messages already wait in this session and 2 may"), "{sentence}");
    assert!(matches!(wait(store.admit(bounded("a", &one))), Admitted::Repeat(_)));
    assert!(matches!(wait(store.admit(bounded("d", &two))), Admitted::New(_)));
    let Admitted::Busy(sentence) = wait(store.admit(bounded("e", &two))) else { panic!() };
    assert!(sentence.starts_with("3 messages already wait for this provider's bots"), "{sentence}");
    // Nothing was kept of it, so its id is free; and a run that has begun does not count.
    assert!(wait(store.run("e")).is_none());
    wait(store.start("a", 2));
    assert!(matches!(wait(store.admit(bounded("e", &two))), Admitted::New(_)));
}

#[test]
fn a_run_starts_once_and_ends_once() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    wait(store.admit(admission("r1", &session, 1000)));
    assert!(matches!(wait(store.start("nobody", 1)), Start::Missing));
    let Start::Started { run, message } = wait(store.start("r1", 1500)) else { panic!() };
    assert_eq!((run.state, run.attempts, run.started_at), (RunState::Running, 1, Some(1500)));
    assert_eq!((message.id.as_str(), message.at, message.kind), ("r1", 1000, EntryKind::Sent));
    assert!(matches!(wait(store.start("r1", 1600)), Start::NotPending(run) if run.state == RunState::Running));

    let end = Finish {
        writes: vec![set("k", b"v")],
        bot_version: Some("v7".into()),
        ..finish("r1", completed("hello"), 2000)
    };
    let Finished::Won(run) = wait(store.finish(end)) else { panic!() };
    assert_eq!((run.state, run.ended_at, run.reply_at), (RunState::Completed, Some(2000), Some(2000)));
    assert_eq!((run.outcome, run.bot_version.as_deref()), (Some(completed("hello")), Some("v7")));

    let late = Outcome::Failed { error: RunError::new("trap", "x") };
    let Finished::Lost(run) = wait(store.finish(finish("r1", late.clone(), 2001))) else { panic!() };
    assert_eq!(run.outcome, Some(completed("hello")));
    assert!(matches!(wait(store.finish(finish("nobody", late, 1))), Finished::Missing));
    assert!(matches!(wait(store.start("r1", 1)), Start::NotPending(run) if run.outcome == Some(completed("hello"))));
    assert!(matches!(wait(store.admit(admission("r1", &session, 1))), Admitted::Repeat(run)
        if run.outcome == Some(completed("hello"))));

    let page = wait(store.history(all(&session)));
    assert_eq!(ids(&page.entries), ["r1", "r1:reply"]);
    assert_eq!(page.entries[1].kind, EntryKind::Reply);
    assert_eq!(wait(store.state_get(session, "k".into())), Some(b"v".to_vec()));
    assert_eq!(wait(store.stats()).outbox, 1);
}

#[test]
fn only_a_completed_run_leaves_a_reply_and_state() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    let ends = [
        Outcome::Failed { error: RunError::new("failed", "no") },
        Outcome::TimedOut { error: RunError::new("timeout", "late") },
        Outcome::Aborted { reason: "r".into() },
    ];
    for (n, outcome) in ends.into_iter().enumerate() {
        let id = format!("r{n}");
        wait(store.admit(admission(&id, &session, 1)));
        // The last of them straight from PENDING.
        if n < 2 {
            wait(store.start(&id, 1));
        }
        let end = Finish { writes: vec![set("k", b"v")], ..finish(&id, outcome.clone(), 2) };
        let Finished::Won(run) = wait(store.finish(end)) else { panic!() };
        assert_eq!((run.state, run.reply_at, &run.outcome), (outcome.state(), None, &Some(outcome)));
    }
    assert_eq!(ids(&wait(store.history(all(&session))).entries), ["r0", "r1", "r2"]);
    assert_eq!(wait(store.state_get(session.clone(), "k".into())), None);
    // An empty reply is a reply.
    ended(&store, "empty", &session, 3, "");
    assert_eq!(ids(&wait(store.history(all(&session))).entries)[3..], ["empty", "empty:reply"]);
    assert_eq!(wait(store.run("empty")).unwrap().outcome, Some(completed("")));
    let stats = wait(store.stats());
    assert_eq!((stats.pending, stats.running, stats.outbox), (0, 0, 4));
}

#[test]
fn a_reply_is_given_back_to_the_letter() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    let texts = [
        "{\"sender\":{\"id\":\"1\",\"name\":\"x\"}}\n\nhi",
        "a\0b\r\n\u{1F980}\"\\",
        "  \n",
        &"\u{1F980}".repeat(20_000),
    ];
    for (n, text) in texts.iter().enumerate() {
        let id = format!("r{n}");
        ended(&store, &id, &session, 1, text);
        assert_eq!(wait(store.run(&id)).unwrap().outcome, Some(completed(text)));
    }
}

#[test]
fn abort_follows_the_guides_table() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    assert_eq!(wait(store.abort(abort("a1", &session, 1))), AbortAnswer::Idle, "no record");
    wait(store.inject(injection("i", &session, 1, false)));
    wait(store.admit(admission("r1", &session, 2)));
    assert_eq!(wait(store.abort(abort("a2", &session, 3))), AbortAnswer::Idle, "only PENDING");
    wait(store.admit(admission("r2", &session, 4)));
    wait(store.start("r1", 5));
    let other = key("bot", "t");
    assert_eq!(wait(store.abort(abort("a3", &other, 6))), AbortAnswer::Idle, "another session's run");
    assert_eq!(wait(store.abort(abort("a4", &session, 7))), AbortAnswer::Aborted(vec!["r1".into()]));

    let run = wait(store.run("r1")).unwrap();
    assert_eq!((run.state, run.ended_at), (RunState::Aborted, Some(7)));
    assert_eq!(run.outcome, Some(Outcome::Aborted { reason: "user_cancelled".into() }));
    assert!(matches!(wait(store.finish(finish("r1", completed("late"), 8))), Finished::Lost(_)));
    assert_eq!(wait(store.run("r2")).unwrap().state, RunState::Pending);
    assert_eq!(wait(store.abort(abort("a5", &session, 9))), AbortAnswer::Idle, "ended and PENDING");
    wait(store.start("r2", 10));
    // The same id gives the same answer, and r2 goes on.
    assert_eq!(wait(store.abort(abort("a4", &session, 11))), AbortAnswer::Aborted(vec!["r1".into()]));
    assert_eq!(wait(store.run("r2")).unwrap().state, RunState::Running);
    wait(store.finish(finish("r2", completed("done"), 12)));
    assert_eq!(wait(store.abort(abort("a6", &session, 13))), AbortAnswer::Terminated);
    assert_eq!(wait(store.abort(abort("a2", &session, 14))), AbortAnswer::Idle, "kept from before");
    let other_body = Abort { fingerprint: Fingerprint([9; 32]), ..abort("a2", &session, 15) };
    assert!(matches!(wait(store.abort(other_body)), AbortAnswer::Conflict(_)));
    assert_eq!(wait(store.stats()).outbox, 2);
}
