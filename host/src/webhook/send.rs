//! `chat.send`: admitted and on disk, then answered with a stream or an acknowledgement.

use axum::body::Body;
use axum::response::Response;
use futures_util::StreamExt;

use super::ack::AckBody;
use super::door::Admitted;
use super::{Inner, respond};
use crate::bot::Lookup;
use crate::run::store_refusal;
use crate::store::Admission;
use crate::wire::headers::ProtocolVersion;
use crate::wire::{ApiError, BotRef, Channel, ErrorCode};

pub(super) async fn send(inner: &Inner, request: Admitted, bot: BotRef) -> Result<Response, ApiError> {
    if let Lookup::Broken(why) = inner.bots.lookup(&bot)
        && !is_repeat(inner, &request.envelope.id, &bot).await?
    {
        return Err(ApiError::new(ErrorCode::Unavailable, format!("The bot {bot} has no working build: {why}"))
            .retry_after_ms(30_000));
    }
    let channel = match (request.version, request.streaming) {
        (ProtocolVersion::V1, _) => Channel::CallbackV1,
        (ProtocolVersion::V2, true) => Channel::Sse,
        (ProtocolVersion::V2, false) => Channel::CallbackV2,
    };
    let key = request.key(&bot);
    let Admitted { envelope, now, flush, .. } = request;
    let default_ms = u64::try_from(inner.options.default_timeout.as_millis()).unwrap_or(u64::MAX);
    let message = envelope.message.ok_or_else(|| ApiError::invalid("The field `message` is missing."))?;
    let admission = Admission {
        id: envelope.id,
        key,
        group: envelope.group_id,
        tags: envelope.tags,
        extensions: envelope.extensions,
        channel,
        fingerprint: envelope.fingerprint,
        message,
        now,
        deadline: now.saturating_add(envelope.timeout_ms.unwrap_or(default_ms)),
        max_pending_session: inner.runs.options().pending_session,
        max_pending_total: inner.runs.options().pending_total,
    };
    let run = inner.runs.admit(admission).await?;
    if run.repeat && (run.record.channel == Channel::Sse) != (channel == Channel::Sse) {
        // The protocol binds a run to the transport of its first answer (guide, "transport negotiation").
        if let Some(hold) = run.hold {
            hold.withdraw();
        }
        let bound = if run.record.channel == Channel::Sse { "an event stream" } else { "callbacks" };
        return Err(ApiError::new(
            ErrorCode::Conflict,
            format!("The run of this `id` was answered with {bound} and stays so; `Accept` now asks for the other."),
        ));
    }
    if channel == Channel::Sse {
        let stream = inner.runs.attach(&run.record.id).await?.into_stream(&run.record.id);
        let body = Body::from_stream(stream.map(Ok::<_, std::convert::Infallible>));
        return Ok(respond::event_stream(body));
    }
    Ok(respond::json_body(AckBody::body(br#"{"ok":true}"#, run.hold, flush)))
}

/// Whether a run of this bot has this id already: then nothing is to be run, whatever became of the bot.
pub(super) async fn is_repeat(inner: &Inner, id: &str, bot: &BotRef) -> Result<bool, ApiError> {
    let run = inner.runs.store().run(id).await.map_err(|e| store_refusal(&e))?;
    Ok(run.is_some_and(|run| run.key.bot == *bot))
}
