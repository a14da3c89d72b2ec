//! `chat.inject`: context, and no reply.

use super::super::Bcs;
use super::super::answer::{self, Ack, OkFalse, Reply};
use super::super::error::SimError;
use super::super::request::{Kind, Request};
use super::{OTHER_TIMEOUT_MS, user_message};

/// `chat.inject`
#[derive(Debug, Clone, Copy)]
pub struct InjectMethod;

impl Bcs {
    /// A `chat.inject` with a text.
    #[must_use]
    pub fn inject(&self, bot: &str, session: &str, text: &str) -> Request<InjectMethod> {
        Request::new(self, "chat.inject", bot, session, OTHER_TIMEOUT_MS).message(user_message(text))
    }
}

impl Kind for InjectMethod {
    type Answer = Reply<Ack>;

    async fn perform(request: Request<Self>) -> Result<Self::Answer, SimError> {
        let sent = request.post().await?;
        answer::read(&request.bcs, request.request_id(), sent, OkFalse::Noted).await
    }
}
