#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn bot(name: &str) -> BotRef {
    BotRef::parse(name).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn a_line_is_written_as_it_was_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("logs/bots");
    let logs = BotLogs::open(&dir, DEFAULT_MAX_BYTES).unwrap();
    let log = logs.for_bot(&bot("echo:de"));
    log.line(LogLevel::Info, LogSource::Log, Some("run-1"), "a\nb\u{0}\"😀");
    log.line(LogLevel::Error, LogSource::Stderr, None, "x");
    logs.flush();
    let path = dir.join("echo:de.jsonl");
    let lines = lines(&path);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["text"], "a\nb\u{0}\"😀");
    assert_eq!(
        (&lines[0]["level"], &lines[0]["source"], &lines[0]["run"]),
        (&"info".into(), &"log".into(), &"run-1".into())
    );
    assert_eq!(
        (&lines[1]["level"], &lines[1]["source"], &lines[1]["run"]),
        (&"error".into(), &"stderr".into(), &Value::Null)
    );
    assert!(lines[0]["ts"].as_u64().unwrap() > 1_600_000_000_000);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_full_log_is_rotated_at_a_whole_line() {
    let dir = tempfile::tempdir().unwrap();
    let logs = BotLogs::open(dir.path(), 1000).unwrap();
    let log = logs.for_bot(&bot("b"));
    for n in 0..100 {
        log.line(LogLevel::Info, LogSource::Log, None, format!("{n}"));
    }
    logs.close();
    let (old, new) = (dir.path().join("b.jsonl.1"), dir.path().join("b.jsonl"));
    for path in [&old, &new] {
        let len = fs::metadata(path).unwrap().len();
        assert!((1..=1000).contains(&len), "{path:?} has {len} bytes");
    }
    let numbers: Vec<u64> =
        lines(&old).iter().chain(&lines(&new)).map(|line| line["text"].as_str().unwrap().parse().unwrap()).collect();
    let expected: Vec<u64> = (100 - numbers.len() as u64..100).collect();
    assert_eq!(numbers, expected, "the newest lines, in order, without a gap");
}

#[test]
fn what_is_dropped_is_counted_where_it_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    // Without its writer the queue can only fill.
    let (logs, receiver) = BotLogs::prepare(dir.path()).unwrap();
    let (noisy, quiet) = (logs.for_bot(&bot("noisy")), logs.for_bot(&bot("quiet")));
    for n in 0..MAX_BOT_LINES + 7 {
        noisy.line(LogLevel::Info, LogSource::Log, None, format!("{n}"));
    }
    let big = logs.for_bot(&bot("big"));
    big.line(LogLevel::Info, LogSource::Log, None, "x".repeat(MAX_BOT_BYTES + 1));
    quiet.line(LogLevel::Info, LogSource::Log, None, "heard");
    logs.start(receiver, dir.path(), DEFAULT_MAX_BYTES).unwrap();
    logs.flush();
    noisy.line(LogLevel::Info, LogSource::Log, None, "later");
    logs.close();
    let noisy = lines(&dir.path().join("noisy.jsonl"));
    assert_eq!(noisy.len(), MAX_BOT_LINES + 2);
    let report = &noisy[MAX_BOT_LINES];
    assert_eq!((&report["source"], &report["level"]), (&"host".into(), &"warn".into()));
    assert!(report["text"].as_str().unwrap().starts_with("7 lines are missing"), "{report}");
    assert_eq!(noisy[MAX_BOT_LINES + 1]["text"], "later");
    assert_eq!(lines(&dir.path().join("quiet.jsonl"))[0]["text"], "heard");
    assert!(lines(&dir.path().join("big.jsonl"))[0]["text"].as_str().unwrap().starts_with("1 lines are missing"));
    assert_eq!(logs.bots.bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn lines_that_met_a_full_disk_are_reported_once_it_has_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.jsonl");
    fs::create_dir(&path).unwrap();
    let logs = BotLogs::open(dir.path(), DEFAULT_MAX_BYTES).unwrap();
    let log = logs.for_bot(&bot("b"));
    for _ in 0..3 {
        log.line(LogLevel::Info, LogSource::Log, None, "lost");
    }
    logs.flush();
    fs::remove_dir(&path).unwrap();
    log.line(LogLevel::Info, LogSource::Log, None, "kept");
    logs.close();
    let lines = lines(&path);
    assert_eq!(lines.len(), 2);
    // The writer may be about to try again when the line comes, so either may be first.
    assert!(lines.iter().any(|line| line["text"].as_str().unwrap().starts_with("3 lines are missing")), "{lines:?}");
    assert!(lines.iter().any(|line| line["text"] == "kept"), "{lines:?}");
}

#[test]
fn a_line_cut_off_by_a_crash_spoils_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.jsonl");
    fs::write(&path, "{\"ts\":1,\"te").unwrap();
    let logs = BotLogs::open(dir.path(), DEFAULT_MAX_BYTES).unwrap();
    logs.for_bot(&bot("b")).line(LogLevel::Info, LogSource::Log, None, "whole");
    drop(logs);
    let text = fs::read_to_string(&path).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((text.lines().count(), &last["text"]), (2, &"whole".into()));
}

#[test]
fn more_bots_than_open_files_all_get_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let logs = BotLogs::open(dir.path(), DEFAULT_MAX_BYTES).unwrap();
    for round in 0..3 {
        for n in 0..200 {
            logs.for_bot(&bot(&format!("b{n}"))).line(LogLevel::Info, LogSource::Log, None, format!("{round}"));
        }
    }
    logs.close();
    for n in 0..200 {
        assert_eq!(lines(&dir.path().join(format!("b{n}.jsonl"))).len(), 3);
    }
}

proptest! {
    #[test]
    fn every_reference_has_a_file_name_of_its_own(a in "[a.:]{1,4}|[a.]{195,256}", b in "[a.:]{1,4}|[a.]{195,256}") {
        let names = [file::file_name(&bot(&a)), file::file_name(&bot(&b))];
        prop_assert_eq!(a == b, names[0] == names[1]);
        for name in names {
            prop_assert!(!name.starts_with('.') && !name.contains('/') && name.len() <= 240 && name.ends_with(".jsonl"));
        }
    }
}
