//! A process that writes is killed, or meets a full disk; what it was told is kept must be there.
//!
//! The child is this test binary again, with one test chosen by name and a variable that says what to do.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::wire::RunState;

const DIR: &str = "AVERNEST_STORE_TEST_DIR";
const ROUND: &str = "AVERNEST_STORE_TEST_ROUND";

/// What the run's message and reply say: long now and then, once very long.
fn text(id: &str) -> String {
    let n: usize = id.rsplit('-').next().unwrap().parse().unwrap();
    let len = match n {
        3 if id == "0-0-3" => 32 << 20,
        10 if id.contains("-0-") => 5 << 20,
        _ if n.is_multiple_of(7) => 10_000,
        _ => 600,
    };
    format!("{id} ").repeat(len / (id.len() + 1) + 1)
}

/// Sends, starts and finishes runs in several sessions at once, and says so as soon as it is told so.
#[test]
fn writer() {
    let (Ok(dir), Ok(round)) = (std::env::var(DIR), std::env::var(ROUND)) else { return };
    let store = open(Path::new(&dir));
    if round == "full" {
        return fill(&store);
    }
    let session = async |lane: usize| {
        for n in 0..100_000usize {
            let id = format!("{round}-{lane}-{n}");
            let session = key("bot", &format!("{round}-{lane}"));
            let admission = Admission { message: message(&text(&id)), ..admission(&id, &session, 1000) };
            assert!(matches!(store.admit(admission).await, Ok(Admitted::New(_))));
            println!("\nadmitted {id}");
            assert!(matches!(store.start(&id, 2000).await, Ok(Start::Started { .. })));
            println!("\nstarted {id}");
            let writes = vec![set("last", id.as_bytes()), set(&id, b"")];
            let end = Finish { writes, ..finish(&id, completed(&text(&id)), 3000) };
            assert!(matches!(store.finish(end).await, Ok(Finished::Won(_))));
            println!("\nfinished {id}");
        }
    };
    try_wait(futures_util::future::join_all((0..8).map(session)));
}

/// Writes until it fails, then says how the store stands.
fn fill(store: &SledStore) {
    let session = key("bot", "s");
    for n in 0..100_000 {
        let id = format!("full-{n}");
        match try_wait(store.admit(Admission {
            max_pending_session: 100_000,
            max_pending_total: 100_000,
            ..admission(&id, &session, 1000)
        })) {
            Ok(_) => println!("\nadmitted {id}"),
            Err(error) => {
                println!("\nerror {error}");
                let again = try_wait(store.put_artifact("k", [0; 32])).unwrap_err();
                println!("\nagain {again}");
                println!("\nread {}", try_wait(store.run("full-0")).is_ok_and(|run| run.is_some()));
                let close = try_wait(store.close()).unwrap_err();
                println!("\nclose {close}");
                return;
            }
        }
    }
}

fn spawn(program: &mut Command, dir: &Path, round: &str) -> Child {
    let name = format!("{}::writer", module_path!().split_once("::").unwrap().1);
    program
        .args([name.as_str(), "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(ROUND, round)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The whole lines that the child wrote, as word and rest.
fn lines(child: &mut Child) -> impl Iterator<Item = (String, String)> + use<> {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    std::iter::from_fn(move || {
        let mut line = String::new();
        // The last line may be cut off.
        (reader.read_line(&mut line).unwrap() > 0 && line.ends_with('\n')).then_some(line)
    })
    .filter_map(|line| line.trim_end().split_once(' ').map(|(word, rest)| (word.to_owned(), rest.to_owned())))
    .filter(|(word, _)| ["admitted", "started", "finished", "error", "again", "read", "close"].contains(&word.as_str()))
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = HashSet::new();
    for (round, point) in [900, 7, 150, 1, 333, 61].into_iter().enumerate() {
        let point = point + rand::random_range(0..point);
        let mut child = spawn(&mut Command::new(std::env::current_exe().unwrap()), dir.path(), &round.to_string());
        let mut told = Vec::new();
        let mut lines = lines(&mut child);
        told.extend(lines.by_ref().take(point));
        assert_eq!(told.len(), point, "the writer ended by itself");
        child.kill().unwrap();
        // What it wrote between the last line looked at and its end was acknowledged as well.
        told.extend(lines);
        child.wait().unwrap();

        let store = open(dir.path());
        check(&store, &told);
        let stats = wait(store.stats());
        // The runs of each session are whole: the stats agree with the records.
        let recovery = wait(store.recover(4000, Vec::new()));
        assert_eq!((recovery.pending.len() as u64, recovery.failed as u64), (stats.pending, stats.running));
        let batch = wait(store.outbox_take(5000, usize::MAX, 1));
        assert_eq!(batch.entries.len() as u64, stats.outbox + stats.running);
        for entry in batch.entries {
            assert!(entry.bodies.iter().all(|body| events.insert(body.event_id.clone())));
            wait(store.outbox_settle(&entry.run_id, Settlement::Delivered));
        }
        for run in recovery.pending {
            wait(store.finish(finish(&run.id, Outcome::Aborted { reason: "test".into() }, 6000)));
            wait(store.outbox_settle(&run.id, Settlement::Delivered));
        }
        if round % 2 == 1 {
            wait(store.expire(10_000, Retention { ids_ms: 0 }, 100));
        }
        wait(store.close());
    }
    assert_eq!(std::fs::read_dir(dir.path().join("sled/blobs")).unwrap().count(), 0);
}

fn check(store: &SledStore, told: &[(String, String)]) {
    for (word, id) in told {
        let run = wait(store.run(id)).unwrap_or_else(|| panic!("{word} {id} is lost"));
        let least = match word.as_str() {
            "admitted" => RunState::Pending,
            "started" => RunState::Running,
            _ => RunState::Completed,
        };
        let rank = |state| [RunState::Pending, RunState::Running, RunState::Completed].iter().position(|s| *s == state);
        assert!(rank(run.state) >= rank(least), "{word} {id} is {:?}", run.state);
        let said = text(id);
        let page = wait(store.history(HistoryQuery { after: Some(run.message_at - 1), limit: 1, ..all(&run.key) }));
        assert_eq!(page.entries[0].id, *id);
        assert!(page.entries[0].message.message.get() == message(&said).message.get(), "{id} has another message");
        if run.state == RunState::Completed {
            assert!(run.outcome == Some(completed(&said)), "{id} has another reply");
            assert!(wait(store.state_get(run.key.clone(), id.clone())).is_some(), "{id} has no state");
        }
    }
}

#[test]
fn a_failed_flush_is_told_and_ends_all_writing() {
    let dir = tempfile::tempdir().unwrap();
    // The kernel refuses to let a file grow beyond this many blocks, as a full disk would.
    let script = r#"trap "" XFSZ; ulimit -f 2048; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(std::env::current_exe().unwrap());
    let mut child = spawn(&mut command, dir.path(), "full");
    let told: Vec<_> = lines(&mut child).collect();
    child.wait().unwrap();
    let of = |word: &str| told.iter().find(|told| told.0 == word).map(|told| told.1.as_str());
    assert!(
        of("error").is_some_and(|error| error.starts_with("the data store failed: writing to ")),
        "{:?}",
        told.last()
    );
    assert_eq!(of("again"), of("error"));
    assert_eq!(of("close"), of("error"));
    assert_eq!(of("read"), Some("true"));
    let store = open(dir.path());
    let admitted = told.iter().filter(|told| told.0 == "admitted");
    assert!(admitted.clone().count() > 10);
    for (_, id) in admitted {
        assert!(wait(store.run(id)).is_some(), "{id} is lost");
    }
}
