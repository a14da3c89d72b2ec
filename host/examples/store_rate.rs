//! How fast the store admits: `cargo run --release --example store_rate [DIR]`.
//!
//! 64 writers admit messages of 600 bytes for five seconds, each waiting for its own to be durable; then one alone.
//! The directory is where the measured disk is; the default is the system's place for temporary files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use avernest::store::{Admission, Admitted, OpenOptions, SledStore, Start, Store};
use avernest::store::{Finish, Finished};
use avernest::wire::message::RawMessage;
use avernest::wire::{BotRef, Channel, Fingerprint, Outcome, SessionKey};

const WRITERS: usize = 64;
const ALONE: usize = 2_000;
const SPAN: Duration = Duration::from_secs(5);

fn admission(writer: usize, n: usize) -> anyhow::Result<Admission> {
    let text = "x".repeat(540);
    let json = serde_json::json!({"role": "user", "content": [{"type": "text", "text": text}]}).to_string();
    Ok(Admission {
        id: uuid::Uuid::new_v4().to_string(),
        key: SessionKey::new(BotRef::parse("bot")?, format!("session-{writer}")),
        group: "group".into(),
        tags: Vec::new(),
        extensions: None,
        channel: Channel::CallbackV1,
        fingerprint: Fingerprint([7; 32]),
        message: RawMessage { message: serde_json::value::RawValue::from_string(json)?, from: None, attachments: None },
        now: 1_000 + n as u64,
        deadline: 1_000_000,
        max_pending_session: usize::MAX,
        max_pending_total: usize::MAX,
    })
}

async fn admit(store: &SledStore, admission: Admission) -> anyhow::Result<()> {
    match store.admit(admission).await? {
        Admitted::New(_) => Ok(()),
        other => anyhow::bail!("not admitted: {other:?}"),
    }
}

async fn whole_run(store: &SledStore, admission: Admission) -> anyhow::Result<()> {
    let (run_id, now) = (admission.id.clone(), admission.now);
    admit(store, admission).await?;
    anyhow::ensure!(matches!(store.start(&run_id, now).await?, Start::Started { .. }));
    let outcome = Outcome::Completed { text: "y".repeat(600), stop_reason: None };
    let finish = Finish { run_id, outcome, writes: Vec::new(), bot_version: None, now };
    anyhow::ensure!(matches!(store.finish(finish).await?, Finished::Won(_)));
    Ok(())
}

/// Operations a second with all writers at once.
async fn together(store: &Arc<SledStore>, whole: bool) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        writers.spawn(async move {
            let mut done = 0;
            while begin.elapsed() < SPAN {
                let admission = admission(writer, done)?;
                if whole {
                    whole_run(&store, admission).await?
                } else {
                    admit(&store, admission).await?
                }
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(writer) = writers.join_next().await {
        done += writer??;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let base = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(base)?;
    let store = Arc::new(SledStore::open(OpenOptions::new(dir.path()))?);

    let mut alone = Vec::with_capacity(ALONE);
    for n in 0..ALONE {
        let admission = admission(WRITERS, n)?;
        let begin = Instant::now();
        admit(&store, admission).await?;
        alone.push(begin.elapsed());
    }
    alone.sort_unstable();
    println!("one admit, idle: p50 {:?}, p99 {:?}", alone[ALONE / 2], alone[ALONE * 99 / 100]);
    println!("{WRITERS} writers: {:.0} durable admits a second", together(&store, false).await?);
    println!("{WRITERS} writers: {:.0} whole runs (admit, start, finish) a second", together(&store, true).await?);
    let stats = store.stats().await?;
    println!("{} PENDING, {} callbacks, {} MB on disk", stats.pending, stats.outbox, stats.disk_bytes >> 20);
    let begin = Instant::now();
    store.close().await?;
    let store = SledStore::open(OpenOptions::new(dir.path()))?;
    println!("closed and opened in {:?}", begin.elapsed());
    let begin = Instant::now();
    let recovery = store.recover(2_000, Vec::new()).await?;
    println!("recovered {} PENDING runs in {:?}", recovery.pending.len(), begin.elapsed());
    Ok(())
}
