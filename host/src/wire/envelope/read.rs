//! How a body becomes an [`Envelope`].

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Envelope, MAX_ID, MAX_NAME, Method};
use crate::wire::canonical::{Defect, MAX_DEPTH};
use crate::wire::error::ApiError;
use crate::wire::fingerprint::Fingerprint;
use crate::wire::json;
use crate::wire::message::RawMessage;

/// The top level. Every value stays the text it was, so that what is kept is what came.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    to_bot: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    bcn_group_id: Option<&'a RawValue>,
    #[serde(borrow)]
    timeout_ms: Option<&'a RawValue>,
    #[serde(borrow)]
    from: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    attachments: Option<&'a RawValue>,
    #[serde(borrow)]
    before: Option<&'a RawValue>,
    #[serde(borrow)]
    after: Option<&'a RawValue>,
    #[serde(borrow)]
    limit: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    extensions: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct ToBot<'a> {
    #[serde(borrow)]
    provider_id: Option<&'a RawValue>,
    #[serde(borrow)]
    provider_bot_ref: Option<&'a RawValue>,
    #[serde(borrow)]
    tags: Option<&'a RawValue>,
}

pub(super) fn envelope(body: &[u8]) -> Result<Envelope, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        ApiError::invalid(format!("the body is not UTF-8: byte {} does not fit", error.valid_up_to() + 1))
    })?;
    let body = object(text)?;
    let fingerprint = Fingerprint::of_text(text).map_err(|defect| refusal(text, &defect))?;
    let fields: Fields<'_> = json::object("body", body)?;

    let method = fields.method.ok_or_else(|| json::missing("method", "a string such as \"chat.send\""))?;
    let method = Method::of(json::text("method", method)?);
    let ping = method == Method::Ping;
    check_type(&fields, ping)?;
    let id = id(&fields, ping)?;
    let to_bot: ToBot<'_> = match fields.to_bot {
        Some(raw) => json::object("to_bot", raw)?,
        None if ping => ToBot::default(),
        None => return Err(json::missing("to_bot", "an object with `provider_id` and `provider_bot_ref`")),
    };
    let provider_id = string("to_bot.provider_id", to_bot.provider_id, !ping, usize::MAX)?;

    let mut envelope = Envelope {
        id,
        method,
        provider_id,
        bot: None,
        tags: Vec::new(),
        session_id: String::new(),
        group_id: String::new(),
        timeout_ms: None,
        message: None,
        before: None,
        after: None,
        limit: None,
        params: None,
        extensions: None,
        fingerprint,
    };
    if matches!(envelope.method, Method::Other(_)) {
        envelope.bot = to_bot.provider_bot_ref.and_then(|raw| json::text("", raw).ok());
        return Ok(envelope);
    }
    envelope.bot = string("to_bot.provider_bot_ref", to_bot.provider_bot_ref, !ping, usize::MAX)?;
    envelope.tags = tags(to_bot.tags)?;
    envelope.session_id = string("session_id", fields.session_id, !ping, MAX_NAME)?.unwrap_or_default();
    envelope.group_id = string("bcn_group_id", fields.bcn_group_id, false, MAX_NAME)?.unwrap_or_default();
    envelope.timeout_ms = fields.timeout_ms.map(|raw| json::whole("timeout_ms", raw, 1)).transpose()?;
    envelope.extensions = fields.extensions.map(|raw| any_object("extensions", raw)).transpose()?;
    match envelope.method {
        Method::Send | Method::Inject => envelope.message = Some(message(&fields)?),
        Method::History => page(&fields, &mut envelope)?,
        Method::Resolve => {
            let params = fields.params.ok_or_else(|| json::missing("params", "an object"))?;
            envelope.params = Some(any_object("params", params)?);
        }
        Method::Abort | Method::Ping | Method::Other(_) => {}
    }
    Ok(envelope)
}

/// The body as one JSON object.
fn object(text: &str) -> Result<&RawValue, ApiError> {
    if text.bytes().all(|b| b.is_ascii_whitespace()) {
        return Err(ApiError::invalid("the body is empty: expected a JSON object"));
    }
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|error| ApiError::invalid(format!("the body is not valid JSON: {error}")))?;
    match json::kind(raw) {
        "an object" => Ok(raw),
        found => Err(ApiError::invalid(format!("the body must be a JSON object, found {found}"))),
    }
}

/// A defect in words, with the line and column where it is.
fn refusal(text: &str, defect: &Defect) -> ApiError {
    let (at, what) = match defect {
        Defect::TooDeep(at) => (*at, format!("arrays and objects are nested more than {MAX_DEPTH} deep")),
        Defect::Duplicate(at, key) => (*at, format!("the field `{}` is there twice in one object", json::excerpt(key))),
        Defect::NotText(at) => (*at, "a string holds half of a surrogate pair, which is no character".to_owned()),
        Defect::Malformed(at) => (*at, "the JSON is not well formed".to_owned()),
    };
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1) + 1;
    ApiError::invalid(format!("the body is refused: {what} (line {line}, column {column})"))
}

fn check_type(fields: &Fields<'_>, optional: bool) -> Result<(), ApiError> {
    match fields.kind {
        Some(raw) => match json::text("type", raw)? {
            kind if kind == "req" => Ok(()),
            other => {
                let found = json::excerpt(&other);
                Err(ApiError::invalid(format!("field `type`: expected \"req\", found \"{found}\"")))
            }
        },
        None if optional => Ok(()),
        None => Err(json::missing("type", "\"req\"")),
    }
}

fn id(fields: &Fields<'_>, optional: bool) -> Result<String, ApiError> {
    match string("id", fields.id, !optional, MAX_ID)? {
        Some(id) if id.is_empty() => Err(ApiError::invalid("field `id`: expected a string that is not empty")),
        Some(id) => Ok(id),
        None => Ok(String::new()),
    }
}

fn string(name: &str, raw: Option<&RawValue>, required: bool, max: usize) -> Result<Option<String>, ApiError> {
    match raw {
        Some(raw) => json::short_text(name, raw, max).map(Some),
        None if required => Err(json::missing(name, "a string")),
        None => Ok(None),
    }
}

fn tags(raw: Option<&RawValue>) -> Result<Vec<String>, ApiError> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let items = json::items("to_bot.tags", raw, "an array of strings")?;
    items.into_iter().enumerate().map(|(i, raw)| json::text(&format!("to_bot.tags[{i}]"), raw)).collect()
}

fn any_object(name: &str, raw: &RawValue) -> Result<Box<RawValue>, ApiError> {
    if json::kind(raw) != "an object" {
        return Err(json::wrong(name, "an object", raw));
    }
    Ok(raw.to_owned())
}

fn message(fields: &Fields<'_>) -> Result<RawMessage, ApiError> {
    let message = fields.message.ok_or_else(|| json::missing("message", "a string or an object"))?;
    let message = RawMessage {
        message: message.to_owned(),
        from: fields.from.map(ToOwned::to_owned),
        attachments: fields.attachments.map(ToOwned::to_owned),
    };
    message.parse()?;
    Ok(message)
}

fn page(fields: &Fields<'_>, envelope: &mut Envelope) -> Result<(), ApiError> {
    envelope.before = fields.before.map(|raw| json::whole("before", raw, 0)).transpose()?;
    envelope.after = fields.after.map(|raw| json::whole("after", raw, 0)).transpose()?;
    envelope.limit = fields.limit.map(|raw| json::whole("limit", raw, 1)).transpose()?;
    if envelope.before.is_some() && envelope.after.is_some() {
        return Err(ApiError::invalid("fields `before` and `after`: expected one of them at most, found both"));
    }
    Ok(())
}
