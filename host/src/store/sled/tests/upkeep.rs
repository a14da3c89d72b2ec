//! Outbox, recovery, expiry.

use super::*;
use crate::wire::RunState;

fn taken(store: &SledStore, now: u64) -> (Vec<String>, Option<u64>) {
    let batch = wait(store.outbox_take(now, 10, 100));
    (batch.entries.into_iter().map(|entry| entry.run_id).collect(), batch.next_due)
}

#[test]
fn a_callback_keeps_its_event_ids_until_it_is_delivered() {
    let (dir, store) = temp();
    let session = key("bot", "s");
    let v2 = Admission { channel: Channel::CallbackV2, ..admission("r", &session, 1000) };
    wait(store.admit(v2));
    wait(store.start("r", 1000));
    wait(store.finish(finish("r", completed("hello"), 2000)));
    ended(&store, "early", &session, 1500, "x");
    let sse = Admission { channel: Channel::Sse, ..admission("sse", &session, 1) };
    wait(store.admit(sse));
    wait(store.finish(finish("sse", completed("x"), 1)));

    assert_eq!(taken(&store, 1499), (vec![], Some(1500)));
    let batch = wait(store.outbox_take(2000, 1, 100));
    assert_eq!((batch.entries[0].run_id.as_str(), batch.next_due), ("early", Some(2000)));
    let batch = wait(store.outbox_take(2000, 9, 50));
    let first = &batch.entries[0];
    assert_eq!((batch.entries.len(), batch.next_due), (1, Some(2050)));
    assert_eq!((first.bot.as_str(), first.channel, first.done), ("bot", Channel::CallbackV2, 0));
    assert_eq!((first.created_at, first.give_up_at), (2000, 11_000 + 3_600_000));
    let uuid = uuid::Uuid::parse_str(&first.bodies[0].event_id).unwrap();
    assert_eq!(uuid.get_version_num(), 4);

    wait(store.outbox_settle("r", Settlement::Retry { at: 2500, error: "refused".into() }));
    assert_eq!(taken(&store, 2099), (vec![], Some(2100)), "one is leased, the other not due");
    wait(store.close());
    let store = open(dir.path());
    wait(store.recover(2100, Vec::new()));
    let batch = wait(store.outbox_take(2500, 10, 100));
    assert_eq!(batch.entries.iter().map(|e| e.run_id.as_str()).collect::<Vec<_>>(), ["early", "r"]);
    let second = &batch.entries[1];
    assert_eq!((second.attempts, second.last_error.as_deref()), (1, Some("refused")));
    assert_eq!(second.bodies, first.bodies);

    wait(store.outbox_settle("r", Settlement::Progress { done: 1 }));
    let batch = wait(store.outbox_take(2501, 10, 100));
    assert_eq!((batch.entries[0].done, batch.entries[0].attempts), (1, 0));
    assert_eq!(batch.entries[0].last_error, None);
    wait(store.outbox_settle("r", Settlement::Delivered));
    wait(store.outbox_settle("early", Settlement::Dead { error: "401".into() }));
    wait(store.outbox_settle("nobody", Settlement::Delivered));
    assert_eq!(taken(&store, u64::MAX), (vec![], None));
    let stats = wait(store.stats());
    assert_eq!((stats.outbox, stats.dead), (0, 1));
}

#[test]
fn a_lease_ends() {
    let (_dir, store) = temp();
    ended(&store, "r", &key("bot", "s"), 1000, "x");
    assert_eq!(taken(&store, 1000), (vec!["r".into()], Some(1100)));
    assert_eq!(taken(&store, 1099), (vec![], Some(1100)));
    assert_eq!(taken(&store, 1100), (vec!["r".into()], Some(1200)));
    wait(store.recover(1100, Vec::new()));
    assert_eq!(taken(&store, 1100).0, ["r"]);
}

#[test]
fn recovery_sorts_out_what_was_left() {
    let (dir, store) = temp();
    let again = BotRef::parse("again").unwrap();
    for (n, (id, bot, channel, running)) in [
        ("keep1", "bot", Channel::CallbackV1, false),
        ("fail", "bot", Channel::CallbackV2, true),
        ("fail-sse", "again", Channel::Sse, true),
        ("rerun", "again", Channel::CallbackV1, true),
        ("orphan", "again", Channel::Sse, false),
        ("keep2", "again", Channel::CallbackV2, false),
    ]
    .into_iter()
    .enumerate()
    {
        let session = key(bot, id);
        wait(store.admit(Admission { channel, ..admission(id, &session, 100 - n as u64) }));
        if running {
            wait(store.start(id, 200));
        }
    }
    wait(store.close());

    let store = open(dir.path());
    let stats = wait(store.stats());
    assert_eq!((stats.pending, stats.running, stats.outbox), (3, 3, 0));
    let recovery = wait(store.recover(500, vec![again.clone()]));
    let pending: Vec<&str> = recovery.pending.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(pending, ["keep1", "rerun", "keep2"], "in order of admission, not of the clock");
    assert_eq!((recovery.failed, recovery.rerun, recovery.orphaned), (2, 1, 1));
    for id in ["fail", "fail-sse", "orphan"] {
        let run = wait(store.run(id)).unwrap();
        assert_eq!((run.state, run.ended_at), (RunState::Failed, Some(500)));
        assert!(matches!(run.outcome, Some(Outcome::Failed { error }) if error.kind == "restart"));
    }
    assert_eq!(taken(&store, 500).0, ["fail"]);
    let Start::Started { run, .. } = wait(store.start("rerun", 600)) else { panic!() };
    assert_eq!(run.attempts, 2);
    assert_eq!(wait(store.abort(abort("a", &key("bot", "fail"), 1))), AbortAnswer::Terminated);

    // A second recovery finds the rerun one RUNNING; its bot may not rerun any more.
    let recovery = wait(store.recover(700, Vec::new()));
    assert_eq!((recovery.pending.len(), recovery.failed, recovery.orphaned), (2, 1, 0));
    let stats = wait(store.stats());
    assert_eq!((stats.pending, stats.running, stats.outbox), (2, 0, 2));
}

#[test]
fn expiry_takes_what_is_old_and_nothing_else() {
    let (_dir, store) = temp();
    let session = key("bot", "s");
    let keep = Retention { ids_ms: 1000 };
    for id in ["done", "due", "dead"] {
        ended(&store, id, &session, 100, "text");
    }
    wait(store.outbox_settle("done", Settlement::Delivered));
    wait(store.outbox_settle("dead", Settlement::Dead { error: "x".into() }));
    wait(store.admit(admission("pending", &session, 100)));
    wait(store.admit(admission("running", &key("bot", "t"), 100)));
    wait(store.start("running", 100));
    wait(store.inject(injection("i", &session, 100, true)));
    wait(store.abort(abort("a", &session, 100)));
    ended(&store, "young", &key("bot", "u"), 101, "text");

    assert_eq!(wait(store.expire(1099, keep, 10)), 0);
    assert_eq!(wait(store.expire(1100, keep, 3)), 3, "the budget");
    assert_eq!(wait(store.expire(1100, keep, 10)), 1);
    assert_eq!(wait(store.expire(1100, keep, 10)), 0);
    for (id, there) in
        [("done", false), ("dead", false), ("due", true), ("pending", true), ("running", true), ("young", true)]
    {
        assert_eq!(wait(store.run(id)).is_some(), there, "{id}");
    }
    assert_eq!(wait(store.stats()).dead, 0);
    // The ids are free again, the transcript and the owed hook are still there.
    assert_eq!(wait(store.history(all(&session))).entries.len(), 8);
    assert!(matches!(wait(store.inject(injection("i", &session, 2000, false))), Injected::New { .. }));
    assert_eq!(wait(store.recover(2000, Vec::new())).hooks.len(), 1);
    // Once its callback is away, the last ended run of the session goes, and the session knows it.
    wait(store.finish(finish("pending", completed(""), 2000)));
    wait(store.outbox_settle("pending", Settlement::Delivered));
    wait(store.outbox_settle("due", Settlement::Delivered));
    assert_eq!(wait(store.abort(abort("b", &session, 2001))), AbortAnswer::Terminated);
    assert_eq!(wait(store.expire(9000, keep, 10)), 4, "due, pending, i, b");
    assert_eq!(wait(store.abort(abort("c", &session, 9000))), AbortAnswer::Idle);
}
