//! A request to the webhook, checked in the order: token, envelope, protocol version, timestamp, provider, method, bot.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body_util::BodyExt;

use super::answering::{UnderWay, keep_until_taken};
use super::{Answering, DoorState, FlushWatch, Inner, abort, history, inject, ping, resolve, respond, send};
use crate::clock::now_ms;
use crate::run::store_refusal;
use crate::store::HistoryQuery;
use crate::wire::envelope::{Envelope, Method};
use crate::wire::headers::{self, ProtocolVersion};
use crate::wire::{ApiError, BotRef, ErrorCode, SessionKey};

/// How long a request waits for the bots to be loaded after a start, before it is refused. The server waits 65 s for
/// an answer, and 30 s where its delivery queue is on.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// How much of a refused request is still taken, and for how long.
const DISCARD_BYTES: usize = 64 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// A request that has passed the door.
pub(super) struct Admitted {
    pub(super) envelope: Envelope,
    pub(super) version: ProtocolVersion,
    /// `Accept` lists event streams.
    pub(super) streaming: bool,
    /// The connection's, to know when an answer has been written.
    pub(super) flush: Option<FlushWatch>,
    pub(super) now: u64,
}

impl Admitted {
    /// Bot and session, for methods whose bot was checked.
    pub(super) fn key(&self, bot: &BotRef) -> SessionKey {
        SessionKey::new(bot.clone(), self.envelope.session_id.as_str())
    }
}

/// Answers a POST to the webhook.
pub(super) async fn webhook(inner: &Inner, request: Request) -> Response {
    let begun = Instant::now();
    let mut trace = Trace::default();
    let (parts, mut body) = request.into_parts();
    let answering = parts.extensions.get::<Answering>().cloned().unwrap_or_default();
    let answer = handle(inner, parts, &mut body, &answering, &mut trace).await;
    if answer.is_err() {
        discard(&mut body).await;
    }
    let under_way = trace.under_way.take().unwrap_or_else(|| answering.begin());
    let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answer {
        Ok(response) => {
            tracing::info!(
                provider = ?inner.options.provider_id, method = %trace.method, bot = ?trace.bot, session = ?trace.session,
                id = ?trace.id, status = response.status().as_u16(), ms, "answered"
            );
            if respond::is_stream(&response) { response } else { keep_until_taken(under_way, response) }
        }
        Err(error) => {
            tracing::warn!(
                provider = ?inner.options.provider_id, method = %trace.method, bot = ?trace.bot, session = ?trace.session,
                id = ?trace.id, status = error.status, code = ?error.code, why = ?error.message, ms, "refused"
            );
            keep_until_taken(under_way, respond::refusal(&error, None))
        }
    }
}

/// What a log line says of a request, as far as it got.
#[derive(Default)]
struct Trace {
    method: &'static str,
    bot: String,
    session: String,
    id: String,
    /// From when the whole request has come.
    under_way: Option<UnderWay>,
}

/// Takes what a refused client still sends, within bounds: a connection that is closed on it would be reset, and the
/// client would never see why it was refused.
async fn discard(body: &mut Body) {
    let rest = async {
        let mut taken = 0;
        while let Some(Ok(frame)) = body.frame().await {
            taken += frame.data_ref().map_or(0, Bytes::len);
            if taken > DISCARD_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, rest).await;
}

async fn handle(
    inner: &Inner,
    parts: Parts,
    body: &mut Body,
    answering: &Answering,
    trace: &mut Trace,
) -> Result<Response, ApiError> {
    authenticate(inner, &parts.headers)?;
    answering.is_known_now();
    if *inner.state.borrow() == DoorState::Closed {
        return Err(stopping());
    }
    if !headers::is_json(&parts.headers) {
        return Err(ApiError::invalid("The header `Content-Type` must be application/json."));
    }
    let body = read_body(body, inner.options.body_bytes, inner.options.body_timeout).await?;
    trace.under_way = Some(answering.begin());
    let envelope = Envelope::parse(&body)?;
    trace.method = name(&envelope.method);
    trace.id.clone_from(&envelope.id);
    trace.session.clone_from(&envelope.session_id);
    // Unchecked yet, so of any length.
    trace.bot = envelope.bot.iter().flat_map(|bot| bot.chars()).take(BotRef::MAX_LEN).collect();

    let version = ProtocolVersion::of(&parts.headers)?;
    let now = now_ms();
    let skew = u64::try_from(inner.options.max_clock_skew.as_millis()).unwrap_or(u64::MAX);
    headers::check_timestamp(&parts.headers, now, skew)?;
    if let Some(provider) = &envelope.provider_id
        && *provider != inner.options.provider_id
    {
        return Err(ApiError::new(
            ErrorCode::ProviderIdMismatch,
            "The field `to_bot.provider_id` names another provider than this one.",
        ));
    }
    if let Method::Other(method) = &envelope.method {
        let shown: String = method.chars().take(80).collect();
        return Err(ApiError::new(
            ErrorCode::UnsupportedMethod,
            format!(
                "The field `method`: {shown:?} is not supported. Supported are chat.send, chat.inject, chat.abort, \
                 chat.history, bot.ping and interaction.resolve."
            ),
        ));
    }
    until_open(inner).await?;
    let admitted = Admitted {
        version,
        streaming: headers::accepts_event_stream(&parts.headers),
        flush: parts.extensions.get::<FlushWatch>().cloned(),
        now,
        envelope,
    };
    if admitted.envelope.method == Method::Ping {
        return ping::ping(inner, &admitted);
    }
    let bot = routed_bot(inner, &admitted.envelope).await?;
    match admitted.envelope.method {
        Method::Send => send::send(inner, admitted, bot).await,
        Method::Inject => inject::inject(inner, admitted, bot).await,
        Method::Abort => abort::abort(inner, admitted, bot).await,
        Method::History => history::history(inner, admitted, bot).await,
        Method::Resolve => Ok(resolve::resolve(&admitted)),
        // Both answered above.
        Method::Ping | Method::Other(_) => Err(ApiError::invalid("The field `method` cannot be served.")),
    }
}

fn authenticate(inner: &Inner, headers: &http::HeaderMap) -> Result<(), ApiError> {
    let given = headers::bearer(headers).ok_or_else(|| {
        ApiError::new(
            ErrorCode::Unauthorized,
            "The header `Authorization` must be `Bearer` and the token that BCS and this provider share.",
        )
    })?;
    // All are compared, so that the time does not tell which one it was.
    let matches = inner.options.tokens.iter().fold(false, |found, token| found | token.matches(given));
    if matches {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::Unauthorized,
        "The token in the header `Authorization` is not the one that BCS and this provider share.",
    ))
}

/// Just after a start, which bots there are is not known yet, and the server would not come back: the request waits.
async fn until_open(inner: &Inner) -> Result<(), ApiError> {
    let mut state = inner.state.subscribe();
    let decided = tokio::time::timeout(START_PATIENCE, state.wait_for(|s| *s != DoorState::Starting)).await;
    match decided.map(|state| state.map(|s| *s)) {
        Ok(Ok(DoorState::Open)) => Ok(()),
        Ok(_) => Err(stopping()),
        Err(_) => Err(ApiError::new(ErrorCode::Unavailable, "The bots are still being loaded.").retry_after_ms(5_000)),
    }
}

fn stopping() -> ApiError {
    ApiError::new(ErrorCode::Unavailable, "This provider is stopping.").retry_after_ms(5_000)
}

async fn read_body(body: &mut Body, max: usize, time: Duration) -> Result<Bytes, ApiError> {
    let too_large = || {
        ApiError::invalid(format!(
            "The body is larger than {} MiB; `limits.max_body_mb` sets how much is taken.",
            max / (1024 * 1024)
        ))
        .with_status(413)
    };
    let declared = http_body::Body::size_hint(body).lower();
    if declared > max as u64 {
        return Err(too_large());
    }
    let read = async {
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ApiError::invalid("The body broke off before its end."))?;
            if let Ok(data) = frame.into_data() {
                if all.len() + data.len() > max {
                    return Err(too_large());
                }
                all.extend_from_slice(&data);
            }
        }
        Ok(all.freeze())
    };
    tokio::time::timeout(time, read).await.unwrap_or_else(|_| {
        Err(ApiError::invalid(format!("The body did not arrive within {} s.", time.as_secs())).with_status(408))
    })
}

/// The bot that a request is for. One that is not in the folder any more is still answered for what it has done: its
/// sessions can be read and aborted, and a repeated send has the answer of the first.
async fn routed_bot(inner: &Inner, envelope: &Envelope) -> Result<BotRef, ApiError> {
    let name = envelope.bot.as_deref().unwrap_or_default();
    let bot =
        BotRef::parse(name).map_err(|e| ApiError::invalid(format!("The field `to_bot.provider_bot_ref`: {e}.")))?;
    if inner.bots.is_known(&bot) || was_known(inner, &bot, envelope).await? {
        return Ok(bot);
    }
    Err(ApiError::new(
        ErrorCode::BotNotFound,
        format!("The field `to_bot.provider_bot_ref`: there is no bot {bot} in the plugins folder."),
    ))
}

async fn was_known(inner: &Inner, bot: &BotRef, envelope: &Envelope) -> Result<bool, ApiError> {
    let store = inner.runs.store();
    match envelope.method {
        Method::Send => send::is_repeat(inner, &envelope.id, bot).await,
        Method::Abort | Method::History => {
            let key = SessionKey::new(bot.clone(), envelope.session_id.as_str());
            let any = HistoryQuery { key, before: None, after: None, limit: 1, max_bytes: 1 };
            let page = store.history(any).await.map_err(|e| store_refusal(&e))?;
            Ok(!page.entries.is_empty())
        }
        _ => Ok(false),
    }
}

fn name(method: &Method) -> &'static str {
    match method {
        Method::Send => "chat.send",
        Method::Inject => "chat.inject",
        Method::Abort => "chat.abort",
        Method::History => "chat.history",
        Method::Ping => "bot.ping",
        Method::Resolve => "interaction.resolve",
        Method::Other(_) => "unsupported",
    }
}
