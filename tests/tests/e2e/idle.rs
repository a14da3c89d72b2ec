//! Connections that bring nothing, or little: they are closed, cost little, and nobody waits for them.

use std::time::Duration;

use avernest_tests::raw::Raw;
use avernest_tests::{World, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn connect(world: &World) -> TcpStream {
    TcpStream::connect(world.base().trim_start_matches("http://")).await.unwrap()
}

/// Reads until the provider closes.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end too.
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the provider keeps the connection");
}

/// One request on a kept connection, and its answer's head.
async fn ask(stream: &mut TcpStream, id: &str) -> String {
    stream.write_all(&Raw::inject(id).bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"{\"ok\":true}") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).await.unwrap(), 1, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&byte);
    }
    String::from_utf8(answer).unwrap()
}

/// The provider's memory, in bytes.
fn memory(world: &World) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.provider.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn who_shows_no_token_is_closed_and_who_does_is_kept() {
    let world = World::start_with(|o| o.settings = "[server]\nheader_timeout_seconds = 1\n".into()).await;
    let mut known = connect(&world).await;
    ask(&mut known, "known-1").await;
    let mut silent = Vec::new();
    for first in [
        &b""[..],
        PREFACE,
        b"POST /webhook HTTP/1.1\r\nhost: x\r\nx-slow: ",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        let mut stream = connect(&world).await;
        stream.write_all(first).await.unwrap();
        silent.push(stream);
    }
    for stream in silent {
        closed(stream).await;
    }
    // Known ones have more time than that.
    ask(&mut known, "known-2").await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_stream_is_not_idle() {
    let settings = "[server]\nheader_timeout_seconds = 1\nidle_timeout_seconds = 1\n";
    let world = World::start_with(|o| o.settings = settings.into()).await;
    let waiting = world.bcs.send("probe", "a", "wait 3000").await.unwrap().sse().unwrap();
    let mut idle = connect(&world).await;
    ask(&mut idle, "idle").await;
    closed(idle).await;
    assert!(waiting.collect().await.unwrap().outcome.text().is_some());
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_thousand_connections_that_bring_nothing_cost_little() {
    let world = World::start().await;
    world.ask("echo", "s", "hi").await;
    let before = memory(&world);
    let mut streams = Vec::new();
    for n in 0..1_000 {
        let mut stream = connect(&world).await;
        stream.write_all(if n % 2 == 0 { PREFACE } else { b"POST /webhook HTTP/1.1\r\nhost: x\r\n" }).await.unwrap();
        streams.push(stream);
    }
    // One byte at a time, while another is served.
    let slow = tokio::spawn(async move {
        for _ in 0..20 {
            for stream in streams.iter_mut().skip(1).step_by(2) {
                let _ = stream.write_all(b"x").await;
            }
        }
        streams
    });
    for n in 0..20 {
        assert_eq!(world.ask("echo", "s", &format!("hi {n}")).await, format!("You said: hi {n}"));
    }
    let streams = slow.await.unwrap();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", world.provider.pid())).unwrap().count();
    eventually("all to be connected", async || (open() > 1_000).then_some(())).await;
    let more = memory(&world).saturating_sub(before);
    assert!(more < 100 << 20, "{} KiB for {} connections", more / 1024, streams.len());
}
