//! A call ends when it is told to, whatever the guest does.

use super::*;

/// Runs a command, cancels it once its instance is there, and gives its end.
async fn cancelled(stage: &Arc<Stage>, text: &str, cause: CancelCause) -> CallEnd {
    let call = stage.make(Export::Send, text);
    let cancel = call.cancel.clone();
    let running = tokio::spawn({
        let stage = stage.clone();
        async move { stage.run(call).await }
    });
    until("an instance", || stage.runtime.memory_used() > 0).await;
    assert!(cancel.cancel(cause));
    assert!(!cancel.cancel(CancelCause::Shutdown), "the first cause counts");
    stage.runtime.guests().nudge();
    tokio::time::timeout(Duration::from_secs(10), running).await.expect("it did not stop").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spinning_guest_stops() {
    let stage = Arc::new(Stage::new("probe").await);
    for cause in [CancelCause::Aborted, CancelCause::Deadline, CancelCause::Shutdown, CancelCause::Detached] {
        let end = cancelled(&stage, "spin", cause).await;
        assert_eq!(end.result, Err(CallError::Cancelled(cause)));
        assert_eq!(end.writes, []);
        assert!(end.report.stopped_after.unwrap() < Duration::from_secs(5), "{:?}", end.report);
        assert_eq!(stage.runtime.memory_used(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_guest_stops() {
    let stage = Arc::new(Stage::new("probe").await);
    let end = cancelled(&stage, "wait 60000", CancelCause::Aborted).await;
    assert_eq!(end.result, Err(CallError::Cancelled(CancelCause::Aborted)));
    assert!(end.report.cpu < Duration::from_secs(5));
    assert_eq!(stage.runtime.memory_used(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_cancelled_before_it_began_makes_no_instance() {
    let stage = Stage::new("probe").await;
    let call = stage.make(Export::Send, "count");
    call.cancel.cancel(CancelCause::Deadline);
    let end = stage.run(call).await;
    assert_eq!(end.result, Err(CallError::Cancelled(CancelCause::Deadline)));
    assert_eq!(end.report.memory_peak, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_stops_its_guest() {
    let stage = Arc::new(Stage::new("probe").await);
    for text in ["spin", "wait 60000"] {
        let call = stage.make(Export::Send, text);
        let running = tokio::spawn({
            let stage = stage.clone();
            async move { stage.run(call).await }
        });
        until("an instance", || stage.runtime.memory_used() > 0).await;
        running.abort();
        until("the memory back", || stage.runtime.memory_used() == 0).await;
        stage.runtime.wait_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_what_runs() {
    let stage = Arc::new(Stage::new("probe").await);
    let calls: Vec<_> = ["spin", "spin", "spin", "wait 60000"]
        .into_iter()
        .map(|text| {
            let (call, stage) = (stage.make(Export::Send, text), stage.clone());
            tokio::spawn(async move { stage.run(call).await })
        })
        .collect();
    until("four calls", || stage.runtime.active_calls() == 4).await;
    until("an instance", || stage.runtime.memory_used() > 0).await;
    let runtime = stage.runtime.clone();
    tokio::task::spawn_blocking(move || runtime.shutdown()).await.unwrap();
    // What waits is told at its next turn; the others are gone.
    for call in calls.into_iter().take(3) {
        let end = tokio::time::timeout(Duration::from_secs(10), call).await.unwrap().unwrap();
        assert!(end.result.is_err(), "{end:?}");
    }
    let end = stage.send("echo too late").await;
    assert!(matches!(end.result, Err(CallError::Internal(_))), "{end:?}");
}
