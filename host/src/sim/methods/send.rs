//! `chat.send`: the answer settles how the run's events come.

use std::time::Instant;

use super::super::answer::{self, Ack, OkFalse, Reply};
use super::super::error::SimError;
use super::super::request::{Kind, Request, Transport};
use super::super::run::{Delivery, Phase};
use super::super::stream::SseRun;
use super::super::{Bcs, ViolationKind};
use super::{SEND_TIMEOUT_MS, user_message};

/// `chat.send`
#[derive(Debug, Clone, Copy)]
pub struct SendMethod;

/// What a `chat.send` brought.
#[derive(Debug)]
pub enum SendResult {
    /// The run's events come over this stream.
    Sse(Box<SseRun>),
    /// Accepted with `{"ok":true}`: the run's events come by callback.
    Ack(Ack),
    /// Anything but that.
    Not(Reply<std::convert::Infallible>),
}

impl SendResult {
    /// The open stream.
    ///
    /// # Errors
    /// [`SimError::Unexpected`] with what came instead.
    pub fn sse(self) -> Result<SseRun, SimError> {
        let wanted = "an event stream";
        match self {
            Self::Sse(run) => Ok(*run),
            Self::Ack(_) => Err(SimError::Unexpected { wanted, got: "there was a JSON acknowledgement".to_owned() }),
            Self::Not(reply) => Err(unexpected(wanted, reply)),
        }
    }

    /// The acknowledgement.
    ///
    /// # Errors
    /// [`SimError::Unexpected`] with what came instead.
    pub fn acked(self) -> Result<Ack, SimError> {
        let wanted = "a JSON acknowledgement";
        match self {
            Self::Ack(ack) => Ok(ack),
            Self::Sse(_) => Err(SimError::Unexpected { wanted, got: "there was an event stream".to_owned() }),
            Self::Not(reply) => Err(unexpected(wanted, reply)),
        }
    }

    /// The refusal.
    ///
    /// # Errors
    /// [`SimError::Unexpected`] with what came instead.
    pub fn refused(self) -> Result<answer::Refusal, SimError> {
        match self {
            Self::Not(reply) => reply.refused(),
            _ => Err(SimError::Unexpected { wanted: "the send to be refused", got: "it was accepted".to_owned() }),
        }
    }
}

fn unexpected(wanted: &'static str, reply: Reply<std::convert::Infallible>) -> SimError {
    let got = match reply {
        Reply::Refused(refusal) => refusal.to_string(),
        Reply::Undecodable { why, .. } => why,
        Reply::Accepted(never) => match never {},
    };
    SimError::Unexpected { wanted, got }
}

impl Bcs {
    /// A `chat.send` with a text, of protocol 2.0 and over an event stream if nothing else is set.
    #[must_use]
    pub fn send(&self, bot: &str, session: &str, text: &str) -> Request<SendMethod> {
        Request::new(self, "chat.send", bot, session, SEND_TIMEOUT_MS)
            .message(user_message(text))
            .transport(Transport::Sse)
    }
}

impl Request<SendMethod> {
    /// How the run's events are asked for; of protocol 2.0 only.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Short for `transport(Transport::Callback)`.
    #[must_use]
    pub fn callback(self) -> Self {
        self.transport(Transport::Callback)
    }

    fn delivery(&self) -> Delivery {
        Delivery {
            id: self.request_id().to_owned(),
            bot: self.bot().to_owned(),
            session: self.text("session_id").to_owned(),
            version: self.version,
            timeout_ms: self.body.get("timeout_ms").and_then(serde_json::Value::as_u64).unwrap_or(SEND_TIMEOUT_MS),
            at: Instant::now(),
        }
    }
}

/// Settles a run as unknown if the send fails or is given up before there is an answer.
struct Negotiation<'a> {
    bcs: &'a Bcs,
    run_id: &'a str,
}

impl Drop for Negotiation<'_> {
    fn drop(&mut self) {
        self.bcs.inner.state().with_run(self.run_id, |run, _| run.unbind(Phase::Unknown));
    }
}

impl Kind for SendMethod {
    type Answer = SendResult;

    async fn perform(request: Request<Self>) -> Result<SendResult, SimError> {
        let bcs = &request.bcs;
        let run_id = request.request_id();
        bcs.inner.state().deliver(request.delivery());
        let _negotiation = Negotiation { bcs, run_id };
        let sent = request.post().await?;
        let is_stream = answer::is_event_stream(sent.response.headers()) && sent.response.status().is_success();
        if is_stream && request.asks_sse() {
            let mut deadline = sent.started;
            bcs.inner.state().with_run(run_id, |run, notes| {
                run.bind_sse();
                deadline = run.deadline();
                if sent.response.headers().contains_key(http::header::CONTENT_ENCODING) {
                    notes.push((ViolationKind::ContentEncoding, "the event stream is encoded".to_owned()));
                }
            });
            let meta = answer::meta(run_id, &sent);
            return Ok(SendResult::Sse(Box::new(SseRun::new(
                bcs.clone(),
                meta,
                sent.response,
                sent.started,
                deadline,
            ))));
        }
        let reply = answer::read(bcs, run_id, sent, OkFalse::Noted).await?;
        bcs.inner.state().with_run(run_id, |run, _| match &reply {
            Reply::Accepted(_) => run.bind_callback(),
            Reply::Refused(_) | Reply::Undecodable { .. } => run.unbind(Phase::Refused),
        });
        Ok(match reply {
            Reply::Accepted(ack) => SendResult::Ack(ack),
            Reply::Refused(refusal) => SendResult::Not(Reply::Refused(refusal)),
            Reply::Undecodable { meta, why } => SendResult::Not(Reply::Undecodable { meta, why }),
        })
    }
}
