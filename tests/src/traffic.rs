//! Traffic with a ledger: what was acknowledged, in which order, and how it ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use avernest::sim::{Bcs, Outcome, Reply, SendResult};

/// How much traffic.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Part of all names, so that several drives of one provider do not meet.
    pub round: usize,
    /// Sessions, all at once.
    pub sessions: usize,
    /// Sends a session, one acknowledged after the other, none waiting for the replies.
    pub sends: usize,
}

/// What became of one session.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The session.
    pub session: String,
    /// Acknowledged sends, in order; whether over a stream.
    pub sends: Vec<(String, bool)>,
    /// Texts of acknowledged injects, in order.
    pub injects: Vec<String>,
    /// Runs that an abort confirmed.
    pub aborted: Vec<String>,
}

/// Drives the bot `probe` by the plan. Requests that get no answer (the provider was killed) are no part of the ledger.
/// `acknowledged` counts as it goes.
pub async fn drive(bcs: &Bcs, plan: Plan, acknowledged: Arc<AtomicUsize>) -> Vec<Ledger> {
    let mut tasks = Vec::new();
    for s in 0..plan.sessions {
        let (bcs, acknowledged) = (bcs.clone(), acknowledged.clone());
        tasks.push(tokio::spawn(async move { session(&bcs, plan, s, &acknowledged).await }));
    }
    let mut ledgers = Vec::new();
    for task in tasks {
        ledgers.push(task.await.expect("a session's traffic"));
    }
    ledgers
}

async fn session(bcs: &Bcs, plan: Plan, s: usize, acknowledged: &AtomicUsize) -> Ledger {
    let round = plan.round;
    let mut ledger = Ledger { session: format!("session-{round}-{s}"), ..Ledger::default() };
    for n in 0..plan.sends {
        let id = format!("run-{round}-{s}-{n}");
        let request = bcs.send("probe", &ledger.session, "count").id(&id);
        let streaming = (s + n).is_multiple_of(2);
        let request = if streaming { request } else { request.callback() };
        if take(request.clone().await, streaming) {
            ledger.sends.push((id.clone(), streaming));
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        if n % 4 == 1 {
            // The same once more: no second run.
            take(request.await, streaming);
        }
        if n % 5 == 2 {
            let text = format!("note-{round}-{s}-{n}");
            if let Ok(Reply::Accepted(_)) = bcs.inject("probe", &ledger.session, &text).await {
                ledger.injects.push(text);
            }
        }
        if n % 10 == 7
            && let Ok(Reply::Accepted(answer)) = bcs.abort("probe", &ledger.session).await
        {
            ledger.aborted.extend(answer.run_ids);
        }
    }
    ledger
}

/// Whether a send was acknowledged; a stream is read on in the background.
fn take(answer: Result<SendResult, avernest::sim::SimError>, streaming: bool) -> bool {
    match answer {
        Ok(SendResult::Sse(run)) => {
            drop(run.in_background());
            assert!(streaming);
            true
        }
        Ok(SendResult::Ack(_)) => {
            assert!(!streaming);
            true
        }
        Ok(SendResult::Not(refused)) => panic!("a send was refused: {refused:?}"),
        Err(_) => false,
    }
}

/// What [`settle`] has counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Runs with a reply.
    pub completed: usize,
    /// Aborted runs.
    pub aborted: usize,
    /// Runs reported as failed.
    pub failed: usize,
    /// Streams that broke.
    pub broken: usize,
}

/// Waits for the end of everything in the ledgers and checks it: each run has one end, the replies count up without a
/// gap in the order of the sends, and the transcript has every message once, in order.
///
/// # Panics
/// If anything is lost, doubled or out of order.
pub async fn settle(bcs: &Bcs, ledgers: &[Ledger]) -> Counts {
    let mut counts = Counts::default();
    for ledger in ledgers {
        let mut last = 0;
        let mut replied = Vec::new();
        for (id, _) in &ledger.sends {
            match bcs.outcome(id).await.expect("an end") {
                Outcome::Final { text, .. } => {
                    counts.completed += 1;
                    let n: usize = text.parse().expect("a count");
                    assert!(n > last, "{id} counted {n} after {last}: out of order or run twice");
                    last = n;
                    replied.push(id.clone());
                }
                Outcome::Aborted { .. } => counts.aborted += 1,
                Outcome::Error { kind, message } => {
                    counts.failed += 1;
                    assert!(kind.is_none_or(|k| k == "restart"), "{id}: {message}");
                }
                Outcome::Synthesized { .. } => counts.broken += 1,
            }
        }
        let mut transcript = Vec::new();
        let mut after = Some(0);
        while let Some(at) = after {
            let page = bcs.history("probe", &ledger.session).after(at).limit(1000).await.expect("an answer");
            let page = page.accepted().expect("a page");
            transcript.extend(page.messages);
            after = page.next_after;
        }
        let ids: Vec<&str> = transcript.iter().filter_map(|m| m["id"].as_str()).collect();
        let sent: Vec<&str> =
            ids.iter().copied().filter(|id| id.starts_with("run-") && !id.ends_with(":reply")).collect();
        let acknowledged: Vec<&str> = ledger.sends.iter().map(|(id, _)| id.as_str()).collect();
        let kept: Vec<&str> = sent.iter().copied().filter(|id| acknowledged.contains(id)).collect();
        assert_eq!(kept, acknowledged, "{}: the transcript has each send once, in order", ledger.session);
        for id in &replied {
            let reply = format!("{id}:reply");
            assert_eq!(ids.iter().filter(|i| **i == reply).count(), 1, "the reply of {id} is in the transcript once");
        }
        let texts: Vec<String> = transcript
            .iter()
            .filter_map(|m| m["content"][0]["text"].as_str())
            .filter(|t| t.starts_with("note-"))
            .map(str::to_owned)
            .collect();
        let known: Vec<String> = texts.iter().filter(|t| ledger.injects.contains(t)).cloned().collect();
        assert_eq!(known, ledger.injects, "{}: the transcript has each inject once, in order", ledger.session);
    }
    counts
}
