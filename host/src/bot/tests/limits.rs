//! Every limit ends the call with its name, value and setting.

use super::*;

const MIB: usize = 1024 * 1024;

fn names(text: &str, value: impl ToString, setting: &str) {
    assert!(text.contains(&value.to_string()) && text.contains(&format!("`limits.{setting}`")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory() {
    let mut stage = Stage::new("probe").await;
    stage.limits.memory_bytes = 32 * MIB;
    assert_eq!(stage.reply("alloc 8").await, "8 MiB are mine.");
    let end = stage.send("alloc 64").await;
    names(&Stage::limit(end.result.unwrap_err()), 32 * MIB, "memory_mb");
    assert!(end.report.memory_peak <= 32 * MIB && end.report.memory_peak > 8 * MIB, "{:?}", end.report);
    // A limit below what an instance begins with.
    stage.limits.memory_bytes = 1;
    names(&Stage::limit(stage.error("echo x").await), 1, "memory_mb");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_all_bots_together() {
    let stage = Stage::with(RuntimeOptions { total_memory_bytes: 40 * MIB, ..options() }, "probe").await;
    names(&Stage::limit(stage.error("alloc 64").await), 40 * MIB, "guest_memory_mb");
    assert_eq!(stage.reply("alloc 16").await, "16 MiB are mine.");
    assert_eq!(stage.runtime.memory_used(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables() {
    let mut stage = Stage::new("probe").await;
    stage.limits.table_elements = 1;
    names(&Stage::limit(stage.error("echo x").await), 1, "table_elements");
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_time() {
    let mut stage = Stage::new("probe").await;
    stage.limits.cpu_time = Duration::from_millis(50);
    let end = stage.send("spin").await;
    names(&Stage::limit(end.result.unwrap_err()), "50 ms", "cpu_seconds");
    assert!(end.report.cpu >= Duration::from_millis(50), "{:?}", end.report);
    // Waiting is not counted.
    assert_eq!(stage.reply("wait 80").await, "Waited 80 ms.");
}

#[tokio::test(flavor = "multi_thread")]
async fn inject_time() {
    let mut stage = Stage::new("probe").await;
    stage.limits.inject_time = Duration::from_millis(60);
    names(&Stage::limit(stage.inject("inject-spin").await.result.unwrap_err()), "60 ms", "inject_seconds");
    // It is the hook's own: a send may take longer.
    assert_eq!(stage.reply("wait 90").await, "Waited 90 ms.");
}

#[tokio::test(flavor = "multi_thread")]
async fn output() {
    let mut stage = Stage::new("probe").await;
    stage.limits.output_bytes = 10_000;
    assert_eq!(stage.reply("say 10000").await.len(), 10_000);
    names(&Stage::limit(stage.error("say 10001").await), 10_000, "output_mb");
    names(&Stage::limit(stage.error("stream 100000").await), 10_000, "output_mb");
    let said = stage.events.0.lock().unwrap().len();
    assert!((200..320).contains(&said), "{said}");
    names(&Stage::limit(stage.error(&format!("think {}", "x".repeat(10_000))).await), 10_000, "output_mb");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_data() {
    let mut stage = Stage::new("probe").await;
    stage.limits.host_data_bytes = 2_000;
    names(&Stage::limit(stage.error(&format!("set k {}", "x".repeat(2_000))).await), 2_000, "host_data_mb");
    names(&Stage::limit(stage.error(&format!("think {}", "x".repeat(2_001))).await), 2_000, "host_data_mb");
    // A history page is cut instead, the newest being kept.
    stage.session.messages.lock().unwrap().extend((0..9).map(|n| message(&"y".repeat(400), n)));
    let seen: serde_json::Value = serde_json::from_str(&stage.reply("history 9").await).unwrap();
    let times: Vec<u64> = seen.as_array().unwrap().iter().map(|m| m["timestamp"].as_u64().unwrap()).collect();
    assert_eq!(times, [7, 8]);
    // What is too much for the host to take at all ends in the host's own count.
    stage.limits.output_bytes = 0;
    names(&Stage::limit(stage.error(&format!("set k {}", "x".repeat(3 * MIB))).await), 2_000, "host_data_mb");
}

#[tokio::test(flavor = "multi_thread")]
async fn state() {
    let mut stage = Stage::new("probe").await;
    stage.limits.state_keys = 2;
    stage.limits.state_bytes = 100;
    stage.reply("set a 1").await;
    stage.reply("set b 2").await;
    stage.reply("set b 3").await;
    names(&Stage::limit(stage.error("set c 4").await), 2, "state_keys");
    names(&Stage::limit(stage.error(&format!("set b {}", "x".repeat(98))).await), 100, "state_kb");
    stage.reply(&format!("set b {}", "x".repeat(97))).await;
    stage.reply("del a").await;
    stage.reply("set c 4").await;
    // A limit that was lowered under what is there lets it shrink.
    stage.limits.state_bytes = 10;
    stage.reply("set b still long").await;
    names(&Stage::limit(stage.error("set b a little longer").await), 10, "state_kb");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_log_lines_is_dropped_and_counted() {
    let mut stage = Stage::new("probe").await;
    stage.limits.log_bytes = 100;
    let flood = vec!["word"; 1_000].join("\n");
    assert_eq!(stage.reply(&format!("stderr {flood}")).await, "Written to stderr.");
    let lines = stage.lines.0.lock().unwrap();
    assert_eq!(lines.len(), 6, "{lines:?}");
    let (level, source, text) = lines.last().unwrap();
    assert_eq!((*level, *source), (LogLevel::Warn, LogSource::Host));
    assert!(text.starts_with("995 more lines (3980 bytes) were dropped"), "{text}");
    names(text, 100, "log_kb");
}
