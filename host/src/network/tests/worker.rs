//! The outbox's worker, with a store in memory and a server that does anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fake::FakeStore;
use super::server::{Reply, Server, status, until};
use super::*;
use crate::store::{Settlement, Store};

fn spawn(store: &Arc<FakeStore>, server: &Server, options: Options) -> OutboxHandle {
    Outbox::spawn(store.clone() as Arc<dyn Store>, Arc::new(client(&server.url)), options)
}

#[tokio::test]
async fn one_event_id_over_all_tries() {
    for first in [status(500), status(409), status(404), status(429), Reply::Reset, status(302)] {
        let reply = first.clone();
        let server = Server::start(move |_, before| if before == 0 { reply.clone() } else { status(200) }).await;
        let store = Arc::new(FakeStore::default());
        store.put(entry("echo", "r1", 1));
        let _outbox = spawn(&store, &server, Options::default());
        until("delivered", || store.is_delivered("r1")).await;
        let ids: Vec<_> = server.seen().iter().map(|r| r.header("x-bcn-event-id").to_owned()).collect();
        assert_eq!(ids, ["r1-event-0"; 2], "{first:?}");
        assert!(matches!(store.settled("r1")[0], Settlement::Retry { .. }));
    }
}

#[tokio::test]
async fn bodies_go_in_order_and_a_retry_resumes_where_it_was() {
    let server = Server::start(|_, before| status(if before == 1 { 503 } else { 200 })).await;
    let store = Arc::new(FakeStore::default());
    store.put(entry("echo", "r1", 3));
    let _outbox = spawn(&store, &server, Options::default());
    until("delivered", || store.is_delivered("r1")).await;
    let sent: Vec<_> = server.seen().iter().map(|r| (r.header("x-bcn-event-id").to_owned(), r.body.clone())).collect();
    let expected = [0, 1, 1, 2].map(|i| (format!("r1-event-{i}"), format!("{{\"n\":{i}}}")));
    assert_eq!(sent, expected);
    let settled = store.settled("r1");
    assert_eq!(settled[0], Settlement::Progress { done: 1 });
    assert!(matches!(settled[1], Settlement::Retry { .. }));
    assert_eq!(settled[2..], [Settlement::Progress { done: 2 }, Settlement::Delivered]);
}

#[tokio::test]
async fn what_is_over_is_over() {
    let server = Server::start(|request, _| status(if request.bot() == "late" { 410 } else { 422 })).await;
    let store = Arc::new(FakeStore::default());
    store.put(entry("late", "r1", 3));
    store.put(entry("wrong", "r2", 1));
    let _outbox = spawn(&store, &server, Options::default());
    until("both settled", || store.lock().settled.len() == 2).await;
    assert_eq!(store.settled("r1"), [Settlement::Delivered]);
    assert!(matches!(store.settled("r2")[..], [Settlement::Dead { .. }]));
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn nothing_is_sent_while_it_is_held() {
    let server = Server::start(|_, _| status(200)).await;
    let store = Arc::new(FakeStore::default());
    let outbox = spawn(&store, &server, Options::default());
    let (hold, refused, repeat) = (outbox.hold("r1"), outbox.hold("r1"), outbox.hold("r1"));
    store.put(entry("echo", "r1", 1));
    store.put(entry("echo", "r2", 1));
    outbox.notify();
    until("the other is delivered", || store.is_delivered("r2")).await;
    // Neither a client that went away before its answer nor a refused repeat lets the callback go.
    drop(hold);
    refused.withdraw();
    store.put(entry("echo", "r3", 1));
    outbox.notify();
    until("another is delivered", || store.is_delivered("r3")).await;
    assert!(store.settled("r1").is_empty());
    assert_eq!(server.seen().len(), 2);
    repeat.sent();
    until("released", || store.is_delivered("r1")).await;
}

#[tokio::test]
async fn a_hold_ends_by_itself() {
    let server = Server::start(|_, _| status(200)).await;
    let store = Arc::new(FakeStore::default());
    let longest_hold = Duration::from_millis(300);
    let outbox = spawn(&store, &server, Options { longest_hold, ..Options::default() });
    let began = std::time::Instant::now();
    let _hold = outbox.hold("r1");
    store.put(entry("echo", "r1", 1));
    outbox.notify();
    until("sent all the same", || store.is_delivered("r1")).await;
    assert!(began.elapsed() >= longest_hold);
}

#[tokio::test]
async fn bots_do_not_wait_for_each_other() {
    let server =
        Server::start(|request, _| if request.bot() == "slow" { Reply::Gated(200) } else { status(200) }).await;
    let store = Arc::new(FakeStore::default());
    for i in 0..20 {
        store.put(entry("slow", &format!("s{i}"), 1));
    }
    let outbox = spawn(&store, &server, Options::default());
    until("the slow bot has all its places", || server.seen_of("slow") == 4).await;
    for i in 0..20 {
        store.put(entry("quick", &format!("q{i}"), 1));
    }
    outbox.notify();
    until("the quick bot is through", || (0..20).all(|i| store.is_delivered(&format!("q{i}")))).await;
    assert_eq!(server.seen_of("slow"), 4);
    server.open_gate();
    until("the slow bot is through", || store.lock().entries.is_empty()).await;
    assert_eq!(server.seen().len(), 40);
}

#[tokio::test]
async fn the_bounds_hold_and_nothing_goes_twice() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = (now.clone(), most.clone());
    let server = Server::start(move |_, _| {
        count.1.fetch_max(count.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Reply::Gated(200)
    })
    .await;
    let store = Arc::new(FakeStore::default());
    for i in 0..300 {
        store.put(entry(&format!("bot{}", i % 30), &format!("r{i}"), 1));
    }
    let options =
        Options { at_once: 16, take: 32, waiting: 400, lease: Duration::from_millis(30), ..Options::default() };
    let _outbox = spawn(&store, &server, options);
    until("all places are taken", || most.load(Ordering::SeqCst) == 16).await;
    // Leases end meanwhile, and the store gives the same entries again: none goes twice.
    until("entries are given again", || store.lock().given_again > 300).await;
    assert_eq!(most.load(Ordering::SeqCst), 16);
    server.open_gate();
    until("all are through", || store.lock().entries.is_empty()).await;
    assert_eq!(server.seen().len(), 300);
    assert!(store.lock().largest_take <= 32);
}

#[tokio::test]
async fn a_store_that_fails_is_asked_again() {
    let server = Server::start(|_, _| status(200)).await;
    let store = Arc::new(FakeStore::default());
    store.put(entry("echo", "r1", 1));
    (store.lock().failing_takes, store.lock().failing_settlements) = (2, 2);
    let _outbox = spawn(&store, &server, Options::default());
    until("delivered", || store.is_delivered("r1")).await;
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_shutdown_lets_what_is_under_way_end_and_begins_nothing() {
    let server = Server::start(|_, _| Reply::Gated(200)).await;
    let store = Arc::new(FakeStore::default());
    for i in 0..10 {
        store.put(entry("echo", &format!("r{i}"), 2));
    }
    let outbox = spawn(&store, &server, Options::default());
    until("four are under way", || server.seen().len() == 4).await;
    // Further news while it ends; and the stop comes first, the join asking in this order.
    outbox.notify();
    tokio::join!(outbox.shutdown(Duration::from_secs(20)), async { server.open_gate() });
    assert_eq!(server.seen().len(), 4);
    let settled = store.lock().settled.clone();
    assert_eq!(settled.len(), 4);
    assert!(settled.iter().all(|(_, settlement)| *settlement == Settlement::Progress { done: 1 }));
    // A second one has nothing to wait for.
    outbox.shutdown(Duration::from_secs(20)).await;
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let server = Server::start(|_, _| Reply::Hang).await;
    let store = Arc::new(FakeStore::default());
    store.put(entry("echo", "r1", 1));
    let outbox = spawn(&store, &server, Options::default());
    until("under way", || server.seen().len() == 1).await;
    let began = std::time::Instant::now();
    outbox.shutdown(Duration::from_millis(50)).await;
    assert!(began.elapsed() < Duration::from_secs(4));
    assert!(store.lock().settled.is_empty() && store.lock().entries.contains_key("r1"));
}

#[tokio::test]
async fn without_a_handle_the_worker_ends() {
    let server = Server::start(|_, _| status(200)).await;
    let store = Arc::new(FakeStore::default());
    let outbox = spawn(&store, &server, Options::default());
    drop(outbox);
    until("the store is let go", || Arc::strong_count(&store) == 1).await;
}
