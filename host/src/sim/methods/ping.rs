//! `bot.ping`: whether the Provider, or one bot of it, is ready.

use super::super::Bcs;
use super::super::answer::{self, Ack, OkFalse, Reply};
use super::super::error::SimError;
use super::super::request::{Kind, Request};
use super::ABORT_TIMEOUT_MS;

/// `bot.ping`
#[derive(Debug, Clone, Copy)]
pub struct PingMethod;

impl Bcs {
    /// A `bot.ping`; of the Provider as a whole if `bot` is empty.
    #[must_use]
    pub fn ping(&self, bot: &str) -> Request<PingMethod> {
        Request::new(self, "bot.ping", bot, "", ABORT_TIMEOUT_MS)
    }
}

impl Kind for PingMethod {
    type Answer = Reply<Ack>;

    async fn perform(request: Request<Self>) -> Result<Self::Answer, SimError> {
        let sent = request.post().await?;
        answer::read(&request.bcs, request.request_id(), sent, OkFalse::Noted).await
    }
}
