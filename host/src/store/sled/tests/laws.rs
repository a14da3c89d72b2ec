//! What must hold whatever happens to a run, said of the store's answers alone: the model in `model.rs` is not asked,
//! so that a mistake made there and in the store alike would show here.
//!
//! Random sends, repeats, starts, ends, timeouts and aborts, and crashes: the directory is copied as it lies, with no
//! close, and opened and recovered from the copy. A kill in the middle of a write is the matter of `crash.rs`.

mod check;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::wire::{RunError, RunState};

#[derive(Debug, Clone)]
enum Op {
    Send {
        id: u8,
        session: usize,
        channel: Channel,
        print: u8,
    },
    Start {
        id: u8,
    },
    Finish {
        id: u8,
        outcome: Outcome,
    },
    Abort {
        session: usize,
    },
    /// The last abort once more.
    AbortAgain,
    Crash {
        rerun: bool,
    },
}

fn ops() -> impl Strategy<Value = Op> {
    let id = || 0..10_u8;
    let outcome = prop_oneof![
        2 => "[a-z]{0,5}".prop_map(|text| completed(&text)),
        1 => Just(Outcome::Failed { error: RunError::new("trap", "it fell") }),
        // Also of a run that has not begun: the deadline does not wait for its turn.
        1 => Just(Outcome::TimedOut { error: RunError::new("timeout", "too late") }),
    ];
    let channels = select(vec![Channel::Sse, Channel::CallbackV1, Channel::CallbackV2]);
    prop_oneof![
        6 => (id(), 0..2_usize, channels, 0..6_u8).prop_map(|(id, session, channel, print)| {
            Op::Send { id, session, channel, print: u8::from(print == 0) }
        }),
        6 => id().prop_map(|id| Op::Start { id }),
        5 => (id(), outcome).prop_map(|(id, outcome)| Op::Finish { id, outcome }),
        3 => (0..2_usize).prop_map(|session| Op::Abort { session }),
        1 => Just(Op::AbortAgain),
        1 => any::<bool>().prop_map(|rerun| Op::Crash { rerun }),
    ]
}

/// What the answers so far say of a run.
struct Known {
    id: String,
    session: usize,
    channel: Channel,
    print: u8,
    running: bool,
    end: Option<Outcome>,
    /// The finish that won, if one did.
    by: Option<usize>,
    /// Its callback's event ids, once they were seen.
    events: Vec<String>,
}

struct Ledger {
    dir: tempfile::TempDir,
    store: SledStore,
    /// In order of admission.
    runs: Vec<Known>,
    aborts: usize,
    finishes: usize,
    last_abort: Option<(Abort, AbortAnswer)>,
    now: u64,
}

fn name(id: u8) -> String {
    format!("run{id}")
}

fn session(n: usize) -> SessionKey {
    key("bot", ["one", "two"][n])
}

impl Ledger {
    fn known(&mut self, id: &str) -> Option<&mut Known> {
        self.runs.iter_mut().find(|run| run.id == id)
    }

    fn step(&mut self, op: Op) {
        self.now += 3;
        match op {
            Op::Send { id, session, channel, print } => self.send(&name(id), session, channel, print),
            Op::Start { id } => self.start(&name(id)),
            Op::Finish { id, outcome } => self.finish(&name(id), &outcome),
            Op::Abort { session } => self.abort(session),
            Op::AbortAgain => {
                let Some((abort, answer)) = self.last_abort.clone() else { return };
                assert_eq!(wait(self.store.abort(Abort { now: self.now, ..abort })), answer);
            }
            Op::Crash { rerun } => self.crash(rerun),
        }
    }

    fn send(&mut self, id: &str, n: usize, channel: Channel, print: u8) {
        let admission =
            Admission { channel, fingerprint: Fingerprint([print; 32]), ..admission(id, &session(n), self.now) };
        let answer = wait(self.store.admit(admission));
        match (self.known(id), answer) {
            (None, Admitted::New(run)) => {
                assert_eq!(run.state, RunState::Pending);
                let id = id.to_owned();
                self.runs.push(Known {
                    id,
                    session: n,
                    channel,
                    print,
                    running: false,
                    end: None,
                    by: None,
                    events: vec![],
                });
            }
            (Some(known), Admitted::Repeat(run)) => {
                assert_eq!(known.print, print);
                assert_eq!((run.outcome, &run.key), (known.end.clone(), &session(known.session)));
            }
            (Some(known), Admitted::Conflict(_)) => assert_ne!(known.print, print),
            (_, other) => panic!("{id}: {other:?}"),
        }
    }

    fn start(&mut self, id: &str) {
        let answer = wait(self.store.start(id, self.now));
        match (self.known(id), answer) {
            (None, Start::Missing) => {}
            (Some(known), Start::Started { message, .. }) => {
                assert!(known.end.is_none() && !known.running, "{id} begins twice");
                assert_eq!(message.id, id);
                known.running = true;
            }
            (Some(known), Start::NotPending(run)) => {
                assert!(known.running || known.end.is_some());
                assert_eq!(run.outcome, known.end);
            }
            (_, other) => panic!("{id}: {other:?}"),
        }
    }

    fn finish(&mut self, id: &str, outcome: &Outcome) {
        let number = self.finishes;
        self.finishes += 1;
        let writes = vec![set(id, number.to_string().as_bytes())];
        let end = Finish { writes, ..finish(id, outcome.clone(), self.now) };
        let answer = wait(self.store.finish(end));
        match (self.known(id), answer) {
            (None, Finished::Missing) => {}
            (Some(known), Finished::Won(run)) => {
                assert!(known.end.is_none(), "{id} ends twice");
                assert_eq!(run.outcome.as_ref(), Some(outcome));
                (known.end, known.by, known.running) = (run.outcome, Some(number), false);
            }
            // Told of the end that was told before, whoever made it.
            (Some(known), Finished::Lost(run)) => {
                assert_eq!((run.outcome, known.end.is_some()), (known.end.clone(), true))
            }
            (_, other) => panic!("{id}: {other:?}"),
        }
    }

    fn abort(&mut self, n: usize) {
        let mut request = abort(&format!("abort{}", self.aborts), &session(n), self.now);
        request.reason = format!("reason {}", self.aborts);
        self.aborts += 1;
        let answer = wait(self.store.abort(request.clone()));
        let mut of_session: Vec<&mut Known> = self.runs.iter_mut().filter(|run| run.session == n).collect();
        match &answer {
            AbortAnswer::Aborted(ids) => {
                let mut running: Vec<_> = of_session.iter_mut().filter(|run| run.running).collect();
                let mut told = ids.clone();
                told.sort_unstable();
                let mut expected: Vec<_> = running.iter().map(|run| run.id.clone()).collect();
                expected.sort_unstable();
                assert_eq!(told, expected);
                assert!(!told.is_empty());
                for run in &mut running {
                    assert!(run.end.is_none(), "{} ends twice", run.id);
                    (run.end, run.running) = (Some(Outcome::Aborted { reason: request.reason.clone() }), false);
                }
            }
            AbortAnswer::Terminated => {
                assert!(!of_session.is_empty() && of_session.iter().all(|run| run.end.is_some()));
            }
            AbortAnswer::Idle => {
                assert!(of_session.iter().all(|run| !run.running));
                assert!(of_session.is_empty() || of_session.iter().any(|run| run.end.is_none()));
            }
            AbortAnswer::Conflict(_) => panic!("{answer:?}"),
        }
        self.last_abort = Some((request, answer));
    }

    fn crash(&mut self, rerun: bool) {
        let copy = tempfile::tempdir().unwrap();
        copy_all(self.dir.path(), copy.path());
        self.store = open(copy.path());
        self.dir = copy;
        let bots = rerun.then(|| BotRef::parse("bot").unwrap()).into_iter().collect();
        let recovery = wait(self.store.recover(self.now, bots));
        let (mut failed, mut again, mut orphaned) = (0, 0, 0);
        for run in self.runs.iter_mut().filter(|run| run.end.is_none()) {
            let callback = run.channel != Channel::Sse;
            match (run.running, callback) {
                (true, true) if rerun => again += 1,
                (true, _) => failed += 1,
                (false, false) => orphaned += 1,
                (false, true) => {}
            }
            if !callback || (run.running && !rerun) {
                let record = wait(self.store.run(&run.id)).unwrap();
                assert!(matches!(&record.outcome, Some(Outcome::Failed { error }) if error.kind == "restart"));
                run.end = record.outcome;
            }
            run.running = false;
        }
        assert_eq!((recovery.failed, recovery.rerun, recovery.orphaned), (failed, again, orphaned));
        let pending: Vec<_> = recovery.pending.iter().map(|run| run.id.as_str()).collect();
        let waiting = self.runs.iter().filter(|run| run.end.is_none());
        assert_eq!(pending, waiting.map(|run| run.id.as_str()).collect::<Vec<_>>());
        self.check();
    }
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 48 };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_run_ends_once_and_all_answers_agree(ops in prop::collection::vec(ops(), 1..60)) {
        let (dir, store) = temp();
        let (runs, last_abort) = (Vec::new(), None);
        let mut ledger = Ledger { dir, store, runs, aborts: 0, finishes: 0, last_abort, now: 1000 };
        for op in ops {
            ledger.step(op);
        }
        ledger.check();
        ledger.crash(false);
        // Recovered is recovered: a second crash at once changes nothing more.
        ledger.crash(true);
    }
}
