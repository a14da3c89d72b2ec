//! Ends of one run that come from several threads at the same moment.

use std::sync::{Arc, Barrier};

use super::*;
use crate::wire::RunError;

/// A reply, a deadline and an abort at the same moment, from threads of their own.
#[test]
fn of_ends_that_race_one_counts() {
    let (_dir, store) = temp();
    let store = Arc::new(store);
    let session = key("bot", "s");
    for round in 0..200 {
        let id = format!("run{round}");
        assert!(matches!(wait(store.admit(admission(&id, &session, 1000))), Admitted::New(_)));
        assert!(matches!(wait(store.start(&id, 1001)), Start::Started { .. }));
        let late = Outcome::TimedOut { error: RunError::new("timeout", "too late") };
        let barrier = Barrier::new(3);
        let (reply, deadline, aborted) = std::thread::scope(|scope| {
            let end = |outcome: Outcome| {
                let (store, barrier, end) = (&store, &barrier, finish(&id, outcome, 1002));
                scope.spawn(move || {
                    barrier.wait();
                    wait(store.finish(end))
                })
            };
            let (reply, deadline) = (end(completed("text")), end(late.clone()));
            barrier.wait();
            let aborted = wait(store.abort(abort(&format!("abort{round}"), &session, 1003)));
            (reply.join().unwrap(), deadline.join().unwrap(), aborted)
        });
        let record = wait(store.run(&id)).unwrap().outcome;
        let mut winners = 0;
        for (answer, outcome) in [(reply, completed("text")), (deadline, late)] {
            match answer {
                Finished::Won(run) => {
                    winners += 1;
                    assert_eq!((run.outcome.as_ref(), record.as_ref()), (Some(&outcome), Some(&outcome)));
                }
                Finished::Lost(run) => assert_eq!(run.outcome, record),
                Finished::Missing => panic!("{id} is missing"),
            }
        }
        match aborted {
            AbortAnswer::Aborted(ids) => {
                winners += 1;
                assert_eq!(ids, [id.as_str()]);
                assert_eq!(record, Some(Outcome::Aborted { reason: "user_cancelled".into() }));
            }
            AbortAnswer::Terminated => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(winners, 1, "{id}");
    }
}
