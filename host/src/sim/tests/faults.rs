//! The callback server's faults on purpose.

use std::time::{Duration, Instant};

use super::super::{Answered, Bcs, Fault, SimError, ViolationKind::*};
use super::kinds;
use super::provider::{Post, ack, legacy, scripted};

async fn acked() -> (Bcs, Post) {
    let bcs = scripted(|_| async { ack() }).await;
    bcs.send("b", "s", "t").callback().id("r").await.unwrap().acked().unwrap();
    let post = Post::new(&bcs, legacy("r", "final", "x"));
    (bcs, post)
}

#[tokio::test]
async fn statuses_come_first_and_a_retry_is_taken() {
    let (bcs, post) = acked().await;
    bcs.script(Fault::Status(503).times(2));
    bcs.script(Fault::Redirect("/elsewhere".into()).times(1));
    for status in [503, 503, 307, 200] {
        assert_eq!(post.status(&bcs).await, Some(status));
    }
    let answers: Vec<_> = bcs.callbacks("r").iter().map(|callback| (callback.answer, callback.ingested)).collect();
    assert_eq!(answers[0], (Answered::Status(503), false));
    assert_eq!(answers[3], (Answered::Status(200), true));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_spoiled_answer_may_be_asked_for_again() {
    for fault in [Fault::Close, Fault::CloseMidBody] {
        let (bcs, post) = acked().await;
        bcs.script(fault.clone().times(1).ingested());
        assert_eq!(post.send(&bcs).await, None, "{fault:?}");
        assert!(bcs.callbacks("r")[0].ingested);
        assert_eq!(bcs.outcome("r").await.unwrap().text(), Some("x"));
        assert_eq!(post.status(&bcs).await, Some(410), "{fault:?}");
        bcs.assert_clean().unwrap();
    }
    let (bcs, post) = acked().await;
    bcs.script(Fault::Close.times(1));
    assert_eq!(post.send(&bcs).await, None);
    assert_eq!(bcs.run("r").unwrap().outcome, None);
    assert_eq!(post.status(&bcs).await, Some(200));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_scripted_refusal_is_for_good_too() {
    let (bcs, post) = acked().await;
    bcs.script(Fault::Status(401).always().for_run("r"));
    assert_eq!(post.status(&bcs).await, Some(401));
    assert_eq!(post.status(&bcs).await, Some(401));
    assert_eq!(kinds(&bcs), [CallbackRetried]);
    bcs.clear_faults();
    assert_eq!(post.status(&bcs).await, Some(200));
}

#[tokio::test]
async fn hanging_huge_and_slow() {
    let (bcs, post) = acked().await;
    bcs.script(Fault::Hang.times(1));
    let hanging = tokio::spawn({
        let (bcs, post) = (bcs.clone(), post.clone());
        async move { post.send(&bcs).await }
    });
    assert_eq!(bcs.wait_callbacks("r", 1).await.unwrap()[0].answer, Answered::Hung);
    hanging.abort();

    bcs.script(Fault::HugeBody(3_000_000).times(1));
    assert_eq!(post.send(&bcs).await.unwrap().1.len(), 3_000_000);

    let began = Instant::now();
    bcs.script(Fault::Delay(Duration::from_millis(80)).times(1));
    assert_eq!(post.status(&bcs).await, Some(200));
    assert!(began.elapsed() >= Duration::from_millis(80));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn the_server_goes_away_and_comes_back_on_the_same_port() {
    let (bcs, post) = acked().await;
    let url = bcs.url();
    bcs.script(Fault::Hang.times(1));
    let open = tokio::spawn({
        let (bcs, post) = (bcs.clone(), post.clone());
        async move { post.send(&bcs).await }
    });
    bcs.wait_callbacks("r", 1).await.unwrap();
    bcs.stop_callbacks().await;
    assert_eq!(open.await.unwrap(), None, "open connections break");
    assert_eq!(post.send(&bcs).await, None, "new ones are refused");
    bcs.restart_callbacks().await.unwrap();
    assert_eq!(bcs.url(), url);
    assert_eq!(post.status(&bcs).await, Some(200));
    bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn other_paths() {
    let (bcs, _) = acked().await;
    let status = |path: &'static str| {
        let url = format!("{}{path}", bcs.url());
        async move { reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap().status() }
    };
    assert_eq!(status("/bot/events/coordination").await, 404);
    assert_eq!(status("/bot/events").await, 405);
    assert_eq!(kinds(&bcs), [CallbackPath]);
    let SimError::Violations { count, list } = bcs.assert_clean().unwrap_err() else { panic!("violations") };
    assert_eq!((count, list.lines().count()), (2, 2));
    bcs.assert_clean_but(&[CallbackPath]).unwrap();
}

#[tokio::test]
async fn the_server_ends_with_its_last_handle() {
    let bcs = Bcs::start(super::options()).await.unwrap();
    let address = bcs.url().replace("http://", "");
    let connects = || tokio::net::TcpStream::connect(address.clone());
    connects().await.unwrap();
    drop(bcs);
    let ended = async {
        while connects().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), ended).await.expect("the port is closed");
}
