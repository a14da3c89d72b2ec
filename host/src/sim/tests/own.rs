//! What this program's own wire module writes is found right.

use serde_json::json;

use super::provider::{Post, ack, scripted, sse};
use crate::wire::headers::ProtocolVersion;
use crate::wire::{Channel, Event, Outcome, RunError, callback};

fn ends() -> Vec<Outcome> {
    let error = RunError::new("trap", "it fell");
    let completed = |text: &str| Outcome::Completed { text: text.into(), stop_reason: Some("stop".into()) };
    vec![
        completed("hello"),
        completed(""),
        completed(&"long \u{1F980}\n".repeat(500_000)),
        Outcome::Failed { error: error.clone() },
        Outcome::TimedOut { error },
        Outcome::Aborted { reason: "user_cancelled".into() },
    ]
}

#[tokio::test]
async fn streams() {
    for end in ends() {
        let events = [
            Event::Started,
            Event::Thinking("hm".into()),
            Event::ToolStarted { call: "1".into(), name: "n".into(), arguments: json!(null) },
            Event::ToolUpdated { call: "1".into(), name: None, partial: "p".into() },
            Event::ToolFinished {
                call: "1".into(),
                name: Some("n".into()),
                output: "o".into(),
                is_error: false,
                duration_ms: Some(1),
            },
            Event::Phase { previous: "a".into(), next: "b".into() },
            Event::Ended,
            Event::Terminal(end.clone()),
        ];
        let frames: Vec<_> = (1..).zip(&events).map(|(seq, event)| event.to_frame("r", seq, 1)).collect();
        let bcs = scripted(move |_| {
            let pieces = frames.iter().map(crate::wire::sse::encode).collect();
            async move { sse(pieces) }
        })
        .await;
        let run = bcs.send("b", "s", "t").await.unwrap().sse().unwrap().collect().await.unwrap();
        assert_eq!(run.events.len(), events.len());
        if let Outcome::Completed { text, .. } = end {
            assert!(run.text() == text);
        }
        bcs.assert_clean().unwrap();
    }
}

#[tokio::test]
async fn callbacks() {
    let bcs = scripted(|_| async { ack() }).await;
    for (version, channel, word) in
        [(ProtocolVersion::V1, Channel::CallbackV1, "1.0"), (ProtocolVersion::V2, Channel::CallbackV2, "2.0")]
    {
        for end in ends() {
            let ack = bcs.send("b", "s", "t").callback().version(version).await.unwrap().acked().unwrap();
            let id = ack.meta.id;
            let fresh = || uuid::Uuid::new_v4().to_string();
            for body in callback::bodies(channel, &id, &end, super::super::unix_ms(), fresh) {
                let json = serde_json::from_str(&body.json).unwrap();
                let post = Post { version: word, event_id: body.event_id, ..Post::new(&bcs, json) };
                assert_eq!(post.status(&bcs).await, Some(200));
            }
            let told = bcs.outcome(&id).await.unwrap();
            if let (Outcome::Completed { text, .. }, Channel::CallbackV2) = (end, channel) {
                assert!(told.text() == Some(&text));
            }
        }
    }
    bcs.assert_clean().unwrap();
}
