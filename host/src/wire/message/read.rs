//! The parts of a message, out of their accepted forms.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Attachment, Author, Role};
use crate::wire::error::ApiError;
use crate::wire::json;

const MESSAGE_FORMS: &str = "a string or an object with `text` or `content`";
const CONTENT_FORMS: &str = "a string or an array of content blocks";

pub(super) struct Body {
    pub(super) role: Role,
    pub(super) text: String,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Role and text of a message. Without text and content it is a message only if something came with it.
pub(super) fn body(raw: &RawValue, has_attachments: bool) -> Result<Body, ApiError> {
    match json::kind(raw) {
        "a string" => return Ok(Body { role: Role::User, text: json::text("message", raw)? }),
        "an object" => {}
        _ => return Err(json::wrong("message", MESSAGE_FORMS, raw)),
    }
    let fields: Fields<'_> = json::object("message", raw)?;
    let role = match fields.role.and_then(|raw| json::text("message.role", raw).ok()).as_deref() {
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::User,
    };
    let text = match (fields.content, fields.text) {
        (Some(content), _) => content_text(content)?,
        (None, Some(text)) => json::text("message.text", text)?,
        (None, None) if has_attachments => String::new(),
        (None, None) => {
            return Err(ApiError::invalid(format!(
                "field `message`: expected {MESSAGE_FORMS}, found an object with neither"
            )));
        }
    };
    Ok(Body { role, text })
}

/// All text blocks together. Blocks of other types are passed over; they stay in the message's JSON.
fn content_text(raw: &RawValue) -> Result<String, ApiError> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }

    if json::kind(raw) == "a string" {
        return json::text("message.content", raw);
    }
    let mut all = String::new();
    for (i, block) in json::items("message.content", raw, CONTENT_FORMS)?.into_iter().enumerate() {
        let name = format!("message.content[{i}]");
        let block: Block<'_> = json::object(&name, block)?;
        if block.kind.and_then(|raw| json::text("type", raw).ok()).as_deref() == Some("text") {
            let name = format!("{name}.text");
            let text = block.text.ok_or_else(|| json::missing(&name, "a string"))?;
            all.push_str(&json::text(&name, text)?);
        }
    }
    Ok(all)
}

/// The author by the envelope's `from`.
pub(super) fn author(raw: &RawValue) -> Result<Author, ApiError> {
    #[derive(Deserialize)]
    struct From<'a> {
        #[serde(borrow)]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        actor_id: Option<&'a RawValue>,
    }

    let from: From<'_> = json::object("from", raw)?;
    let id = optional("from.actor_id", from.actor_id)?;
    let name = optional("from.name", from.name)?.or_else(|| id.clone()).unwrap_or_default();
    Ok(Author { kind: optional("from.kind", from.kind)?.unwrap_or_default(), name, id })
}

/// What came with a message.
pub(super) fn attachments(raw: Option<&RawValue>) -> Result<Vec<Attachment>, ApiError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        file_name: Option<&'a RawValue>,
        #[serde(borrow)]
        mime_type: Option<&'a RawValue>,
        #[serde(borrow)]
        url: Option<&'a RawValue>,
    }

    let Some(raw) = raw else { return Ok(Vec::new()) };
    let items = json::items("attachments", raw, "an array of objects")?;
    let read = |(i, raw): (usize, &RawValue)| {
        let name = format!("attachments[{i}]");
        let fields: Fields<'_> = json::object(&name, raw)?;
        Ok(Attachment {
            name: optional(&format!("{name}.file_name"), fields.file_name)?,
            media_type: optional(&format!("{name}.mime_type"), fields.mime_type)?,
            url: optional(&format!("{name}.url"), fields.url)?,
            json: raw.get().to_owned(),
        })
    };
    items.into_iter().enumerate().map(read).collect()
}

fn optional(name: &str, raw: Option<&RawValue>) -> Result<Option<String>, ApiError> {
    raw.map(|raw| json::text(name, raw)).transpose()
}
