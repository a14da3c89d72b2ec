//! What is kept, against what was answered.

use std::collections::{BTreeMap, HashMap};

use super::*;

impl Ledger {
    /// Every run, transcript, state and callback.
    pub(super) fn check(&mut self) {
        let mut transcripts: [BTreeMap<String, String>; 2] = Default::default();
        for run in &self.runs {
            let record = wait(self.store.run(&run.id)).unwrap();
            assert_eq!((&record.outcome, record.state.is_terminal()), (&run.end, run.end.is_some()));
            assert!(run.end.is_some() || (record.state == RunState::Running) == run.running);
            let texts = &mut transcripts[run.session];
            texts.insert(run.id.clone(), run.id.clone());
            let state = wait(self.store.state_get(session(run.session), run.id.clone()));
            match &run.end {
                Some(Outcome::Completed { text, .. }) => {
                    texts.insert(format!("{}:reply", run.id), text.clone());
                    let by = run.by.unwrap().to_string();
                    assert_eq!(state.as_deref(), Some(by.as_bytes()), "of the finish that won, and of no other");
                }
                _ => assert_eq!(state, None, "{} did not complete, and wrote", run.id),
            }
        }
        for (n, texts) in transcripts.into_iter().enumerate() {
            let entries = wait(self.store.history(all(&session(n)))).entries;
            assert_eq!(entries.len(), texts.len(), "each message once");
            assert!(entries.windows(2).all(|pair| pair[0].at < pair[1].at));
            let read = |entry: &Entry| (entry.id.clone(), entry.message.parse().unwrap().text);
            assert_eq!(entries.iter().map(read).collect::<BTreeMap<_, _>>(), texts);
        }
        self.check_outbox();
    }

    /// Each run that ended and is told by callback has one entry, of that end, with the event ids it always had.
    fn check_outbox(&mut self) {
        let batch = wait(self.store.outbox_take(u64::MAX / 2, usize::MAX, 0));
        let mut entries: HashMap<_, _> = batch.entries.into_iter().map(|entry| (entry.run_id.clone(), entry)).collect();
        for run in self.runs.iter_mut().filter(|run| run.channel != Channel::Sse) {
            let Some(end) = &run.end else { continue };
            let entry = entries.remove(&run.id).unwrap_or_else(|| panic!("{} is not told", run.id));
            let told: serde_json::Value = serde_json::from_str(&entry.bodies.last().unwrap().json).unwrap();
            let word = match end.state() {
                RunState::Completed => "final",
                RunState::Aborted => "aborted",
                _ => "error",
            };
            assert_eq!((told["run_id"].as_str(), told["state"].as_str()), (Some(run.id.as_str()), Some(word)));
            let events: Vec<_> = entry.bodies.into_iter().map(|body| body.event_id).collect();
            assert!(run.events.is_empty() || run.events == events, "an event id has changed");
            run.events = events;
        }
        assert!(entries.is_empty(), "told without an end: {entries:?}");
        let mut ids: Vec<_> = self.runs.iter().flat_map(|run| &run.events).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "two bodies share an event id");
    }
}
