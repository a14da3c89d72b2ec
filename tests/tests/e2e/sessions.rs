//! Sessions: order, context, injects, history, state, abort.

use std::collections::HashSet;

use avernest::sim::Outcome;
use avernest_tests::{World, eventually};

#[tokio::test]
async fn what_is_injected_is_context_and_nothing_more() {
    let world = World::start().await;
    world.bcs.inject("echo", "s", "The launch is on Friday.").await.unwrap().accepted().unwrap();
    let other = world.bcs.inject("echo", "t", "Something else.").id("i2");
    other.clone().await.unwrap().accepted().unwrap();
    other.await.unwrap().accepted().unwrap();
    let known = world.ask("echo", "s", "What do you know?").await;
    assert!(known.contains("The launch is on Friday.") && !known.contains("Something else."), "{known}");
    let page = world.bcs.history("echo", "t").await.unwrap().accepted().unwrap();
    assert_eq!(page.texts(), ["Something else."]);
    assert!(world.bcs.all_callbacks().is_empty());
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_failing_inject_function_is_logged_and_not_returned() {
    let world = World::start().await;
    for text in ["inject-fail", "inject-spin"] {
        world.bcs.inject("probe", "s", text).await.unwrap().accepted().unwrap();
    }
    // The hooks have their turn before this; the one that spins has a deadline of its own.
    let history = world.ask("probe", "s", "history 10").await;
    assert!(history.contains("inject-fail") && history.contains("inject-spin"), "{history}");
    assert_eq!(world.provider.log().matches("inject function did not end well").count(), 2);
}

#[tokio::test]
async fn state_is_kept_by_session_and_only_of_runs_that_went_well() {
    let world = World::start().await;
    assert_eq!(world.ask("probe", "a", "count").await, "1");
    assert_eq!(world.ask("probe", "a", "count").await, "2");
    assert_eq!(world.ask("probe", "b", "count").await, "1");
    world.ask("probe", "a", "set k v1").await;
    assert!(world.ask("probe", "a", "get k").await.contains("v1"));
    assert!(!world.ask("probe", "b", "get k").await.contains("v1"));
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn abort_ends_what_runs_and_nothing_else() {
    let world = World::start().await;
    let none = world.bcs.abort("probe", "s").await.unwrap().accepted().unwrap();
    assert!(!none.aborted && none.run_ids.is_empty());
    for text in ["spin", "wait 600000"] {
        let mut run = world.bcs.send("probe", text, text).id(&format!("r-{text}")).await.unwrap().sse().unwrap();
        run.next().await.unwrap();
        let queued = world.bcs.send("probe", text, "echo after").await.unwrap().sse().unwrap();
        let abort = world.bcs.abort("probe", text).id(&format!("a-{text}"));
        let answer = abort.clone().await.unwrap().accepted().unwrap();
        assert_eq!((answer.aborted, answer.run_ids), (true, vec![format!("r-{text}")]));
        assert!(matches!(run.collect().await.unwrap().outcome, Outcome::Aborted { .. }));
        assert_eq!(queued.collect().await.unwrap().text(), "after");
        // The same abort again has the same answer; another finds nothing, and again and again.
        let again = abort.await.unwrap().accepted().unwrap();
        assert_eq!((again.aborted, again.run_ids), (true, vec![format!("r-{text}")]));
        for _ in 0..2 {
            let refusal = world.bcs.abort("probe", text).await.unwrap().refused().unwrap();
            assert_eq!((refusal.meta.status, refusal.error.code.as_str()), (410, "run_terminated"));
        }
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn an_abort_of_a_callback_run_is_called_back() {
    let world = World::start().await;
    let ack = world.bcs.send("probe", "s", "spin").callback().await.unwrap().acked().unwrap();
    let ids = eventually("the run to be running", async || {
        let answer = world.bcs.abort("probe", "s").await.unwrap().accepted().unwrap();
        answer.aborted.then_some(answer.run_ids)
    })
    .await;
    assert_eq!(ids, std::slice::from_ref(&ack.meta.id));
    let callbacks = world.bcs.wait_callbacks(&ack.meta.id, 1).await.unwrap();
    assert_eq!(callbacks.len(), 1);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn abort_and_completion_tell_one_story() {
    let world = World::start().await;
    let mut aborted = 0;
    for n in 0..60 {
        let session = format!("race-{n}");
        let run = world.bcs.send("probe", &session, &format!("wait {}", n % 8)).await.unwrap().sse().unwrap();
        let id = run.run_id().to_owned();
        let ended = run.in_background();
        let answer = world.bcs.abort("probe", &session).await.unwrap();
        let outcome = ended.await.unwrap().unwrap().outcome;
        let history = world.bcs.history("probe", &session).await.unwrap().accepted().unwrap();
        match answer {
            avernest::sim::Reply::Accepted(answer) if answer.aborted => {
                assert_eq!(answer.run_ids, [id]);
                assert!(matches!(outcome, Outcome::Aborted { .. }), "{outcome}");
                assert_eq!(history.messages.len(), 1);
                aborted += 1;
            }
            _ => {
                assert!(matches!(outcome, Outcome::Final { .. }), "{outcome}");
                assert_eq!(history.messages.len(), 2);
            }
        }
    }
    println!("{aborted} of 60 were aborted in time");
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn history_pages_through_ten_thousand_messages_once_each() {
    let world = World::start().await;
    const COUNT: usize = 10_000;
    let mut tasks = Vec::new();
    for part in 0..50 {
        let bcs = world.bcs.clone();
        tasks.push(tokio::spawn(async move {
            for n in 0..COUNT / 50 {
                let text = format!("m{}", part * (COUNT / 50) + n);
                bcs.inject("echo", "s", &text).http2().await.unwrap().accepted().unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut seen = HashSet::new();
    let mut before = None;
    loop {
        let mut request = world.bcs.history("echo", "s").limit(997);
        if let Some(at) = before {
            request = request.before(at);
        }
        let page = request.await.unwrap().accepted().unwrap();
        for text in page.texts() {
            assert!(seen.insert(text.clone()), "{text} came twice");
        }
        before = page.next_before;
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen.len(), COUNT);
    let first = world.bcs.history("echo", "s").await.unwrap().accepted().unwrap();
    assert_eq!(first.messages.len(), 50);
    let most = world.bcs.history("echo", "s").limit(5000).await.unwrap().accepted().unwrap();
    assert_eq!(most.messages.len(), 1000);
    let mut after = Some(0);
    let mut forward = Vec::new();
    while let Some(at) = after {
        let page = world.bcs.history("echo", "s").after(at).limit(1000).await.unwrap().accepted().unwrap();
        forward.extend(page.texts());
        after = page.next_after;
    }
    assert_eq!(forward.len(), COUNT);
    let both = world.bcs.history("echo", "s").after(1).before(2).await.unwrap().refused().unwrap();
    assert_eq!(both.meta.status, 400);
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_full_queue_is_refused_with_a_time_to_come_back() {
    let world = World::start_with(|o| o.settings = "[limits]\nmax_pending_per_session = 3\n".into()).await;
    let mut runs = vec![world.bcs.send("probe", "s", "wait 600000").await.unwrap().sse().unwrap()];
    runs[0].next().await.unwrap();
    let waiting: Vec<_> = (0..3).map(|n| world.bcs.send("probe", "s", "echo x").id(&format!("q{n}"))).collect();
    for request in &waiting {
        runs.push(request.clone().await.unwrap().sse().unwrap());
    }
    let refusal = world.bcs.send("probe", "s", "echo x").id("q3").await.unwrap().refused().unwrap();
    assert_eq!((refusal.meta.status, refusal.error.code.as_str()), (429, "rate_limited"));
    assert!(refusal.retry_after.is_some() && refusal.retryable == Some(true));
    // A repeat is no new run; and the refused id can be used again later.
    waiting[0].clone().await.unwrap().sse().unwrap();
    world.bcs.abort("probe", "s").await.unwrap().accepted().unwrap();
    for run in runs.into_iter().skip(1) {
        assert_eq!(run.collect().await.unwrap().text(), "x");
    }
    let later = world.bcs.send("probe", "s", "echo x").id("q3").await.unwrap().sse().unwrap();
    assert_eq!(later.collect().await.unwrap().text(), "x");
}

#[tokio::test]
async fn ping_tells_of_one_bot_and_of_all() {
    let world = World::start().await;
    let one = world.bcs.ping("echo").await.unwrap().accepted().unwrap();
    assert_eq!(one.body["bot"]["state"], "serving");
    assert_eq!(one.body["bot"]["version"].as_str().unwrap().len(), 64);
    let all = world.bcs.ping("").await.unwrap().accepted().unwrap();
    assert_eq!(all.body["bots"].as_array().unwrap().len(), 2);
    let nobody = world.bcs.ping("nobody").await.unwrap().refused().unwrap();
    assert_eq!(nobody.error.code.as_str(), "bot_not_found");
    let resolve = world.bcs.resolve("probe", "s", "r", "i").decision("yes").await.unwrap();
    assert!(resolve.accepted().is_err());
    world.bcs.assert_clean().unwrap();
}
