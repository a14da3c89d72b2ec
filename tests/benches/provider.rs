//! `cargo xtask bench`: what a call costs, what the provider serves, and a bare handler under the same load.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::time::{Duration, Instant};

use avernest_tests::bench::{CallTime, Calls, Client, bare, percentile, settings};
use avernest_tests::process::{Provider, bots_dir};

const CONNECTIONS: usize = 64;
const FOR: Duration = Duration::from_secs(6);
const SPINNERS: usize = 200;

#[tokio::main]
async fn main() {
    // `cargo test --benches` and clippy build this too; only `cargo bench` is to run it.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = settings(dir.path(), &["echo", "probe"]);
    call_cost(&bots_dir()).await;
    load(&config).await;
    spinning(&config).await;
}

async fn call_cost(bots: &Path) {
    println!("\nA fresh instance and one call, no network (p50, p99 of 2,000)");
    for name in ["echo", "probe"] {
        let calls = Calls::of(&bots.join(format!("{name}.wasm"))).await;
        let mut times = Vec::new();
        for _ in 0..2_000 {
            times.push(calls.one().await);
        }
        let show = |what: &str, part: fn(&CallTime) -> f64| {
            let part: Vec<f64> = times.iter().map(part).collect();
            println!(
                "  {name:<8} {what:<34} {:>8.1} µs {:>8.1} µs",
                percentile(&part, 50.0) * 1e6,
                percentile(&part, 99.0) * 1e6
            );
        };
        show("instance", |time| time.instance);
        show("store, instance, call, giving back", |time| time.guest);
        show("with the way to its thread and back", |time| time.whole);
        println!("  {name:<8} {:<34} {:>8.1} µs", "a call, 16 at once", calls.together(16, 500).await * 1e6);
    }
}

/// Sends over SSE against the provider and against a bare handler that parses the same body, in turn, twice.
async fn load(config: &Path) {
    println!("\nchat.send over SSE, {CONNECTIONS} connections, {} s each", FOR.as_secs());
    let provider = Provider::start(config);
    let handler = bare().await;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..2 {
        for (which, name, url) in [(0, "avernest", provider.webhook()), (1, "bare axum handler", handler.clone())] {
            let begun = Instant::now();
            let mut tasks = Vec::new();
            for c in 0..CONNECTIONS {
                let client = Client::new(&url);
                tasks.push(tokio::spawn(async move {
                    let mut times = Vec::new();
                    while begun.elapsed() < FOR {
                        let at = Instant::now();
                        client.sse(&format!("b{round}-{c}-{}", times.len()), &format!("s{c}"), "echo", "hello").await;
                        times.push(at.elapsed().as_secs_f64());
                    }
                    times
                }));
            }
            let mut times = Vec::new();
            for task in tasks {
                times.extend(task.await.unwrap());
            }
            let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
            rates[which].push(rate);
            println!(
                "  {name:<18} {rate:>8.0} sends/s   p50 {:>6.2} ms   p99 {:>6.2} ms",
                percentile(&times, 50.0) * 1e3,
                percentile(&times, 99.0) * 1e3
            );
        }
    }
    let mean = |v: &Vec<f64>| v.iter().sum::<f64>() / v.len() as f64;
    println!(
        "  ratio: a bare handler takes {:.1} times the sends (avernest makes each durable twice and runs a sandboxed bot)",
        mean(&rates[1]) / mean(&rates[0])
    );
}

/// With 200 bots in an endless loop: ping, and abort to the guest being gone.
async fn spinning(config: &Path) {
    println!("\n{SPINNERS} runs in an endless loop");
    let provider = Provider::start(config);
    let client = Client::new(&provider.webhook());
    for n in 0..SPINNERS {
        client.ack(&format!("spin-{n}"), &format!("spin-{n}"), "probe", "spin").await;
    }
    client.until_running(SPINNERS).await;
    let mut pings = Vec::new();
    for _ in 0..200 {
        let at = Instant::now();
        client.ping().await;
        pings.push(at.elapsed().as_secs_f64());
    }
    let mut echoes = Vec::new();
    for n in 0..100 {
        let at = Instant::now();
        client.sse(&format!("among-{n}"), "among", "echo", "hello").await;
        echoes.push(at.elapsed().as_secs_f64());
    }
    let mut answers = Vec::new();
    for n in 0..SPINNERS {
        let at = Instant::now();
        client.abort(&format!("abort-{n}"), &format!("spin-{n}"), "probe").await;
        answers.push(at.elapsed().as_secs_f64());
    }
    let gone = client.stopped_after(&provider, SPINNERS).await;
    for (what, times) in [
        ("ping answered", &pings),
        ("another bot's answer over SSE", &echoes),
        ("abort answered", &answers),
        ("abort to guest gone", &gone),
    ] {
        println!(
            "  {what:<30} p50 {:>7.2} ms   p99 {:>7.2} ms",
            percentile(times, 50.0) * 1e3,
            percentile(times, 99.0) * 1e3
        );
    }
}
