//! `interaction.resolve`: a person's answer to what a bot asked (reference, sections 2.4 and 3.6).

use serde_json::{Value, json};

use super::super::Bcs;
use super::super::answer::{self, Ack, OkFalse, Reply};
use super::super::error::SimError;
use super::super::request::{Kind, Request};
use super::OTHER_TIMEOUT_MS;

/// `interaction.resolve`
#[derive(Debug, Clone, Copy)]
pub struct ResolveMethod;

impl Bcs {
    /// An `interaction.resolve` without a resolution yet. `runId` and `kind` are what the run's events have said;
    /// where they have said nothing, the run's own id and `exec`.
    #[must_use]
    pub fn resolve(&self, bot: &str, session: &str, run_id: &str, interaction_id: &str) -> Request<ResolveMethod> {
        let view = self.run(run_id);
        let interaction = view.as_ref().and_then(|run| run.interactions.get(interaction_id));
        let kind = interaction.map_or("exec", |interaction| interaction.kind.as_str());
        let provider_run_id = view.as_ref().and_then(|run| run.provider_run_id.as_deref()).unwrap_or(run_id);
        let params = json!({
            "bcsRunId": run_id,
            "runId": provider_run_id,
            "interactionId": interaction_id,
            "kind": kind,
            "idempotencyKey": uuid::Uuid::new_v4().to_string(),
        });
        Request::new(self, "interaction.resolve", bot, session, OTHER_TIMEOUT_MS).field("params", params)
    }
}

impl Request<ResolveMethod> {
    /// `decision`, of exec and mode_switch.
    #[must_use]
    pub fn decision(self, decision: &str) -> Self {
        self.param("decision", decision)
    }

    /// `action: "submit"` with these `answers`, of ask_user.
    #[must_use]
    pub fn answers(self, answers: Value) -> Self {
        self.param("action", "submit").param("answers", answers)
    }

    /// `action: "cancel"`, of ask_user.
    #[must_use]
    pub fn cancel(self) -> Self {
        self.param("action", "cancel")
    }

    /// Any field of `params`, in place of what it would be.
    #[must_use]
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Some(Value::Object(params)) = self.body.get_mut("params") {
            params.insert(name.to_owned(), value.into());
        }
        self
    }
}

impl Kind for ResolveMethod {
    /// Refused with `retryable` absent or true: the interaction stays open. With false: it is invalid.
    type Answer = Reply<Ack>;

    async fn perform(request: Request<Self>) -> Result<Self::Answer, SimError> {
        let sent = request.post().await?;
        answer::read(&request.bcs, request.request_id(), sent, OkFalse::Fine).await
    }
}
