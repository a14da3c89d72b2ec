//! What the bot was given, as JSON.

use serde_json::{Value, json};

use crate::avernest::bot::types::{Message, Request, Role};

pub fn request(request: &Request, message: &Message) -> String {
    json!({
        "id": request.id,
        "session": request.session,
        "group": request.group,
        "tags": request.tags,
        "deadline": request.deadline,
        "extensions": request.extensions.as_deref().map(parsed),
        "message": show(message),
        "environment": std::env::vars().count(),
        "arguments": std::env::args().count(),
    })
    .to_string()
}

pub fn history(messages: &[Message]) -> String {
    Value::Array(messages.iter().map(show).collect()).to_string()
}

fn show(message: &Message) -> Value {
    json!({
        "role": match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        },
        "text": message.text,
        "author": message.author.as_ref().map(|author| json!({
            "kind": author.kind, "name": author.name, "id": author.id,
        })),
        "attachments": message.attachments.iter().map(|attachment| json!({
            "name": attachment.name, "mediaType": attachment.media_type, "url": attachment.url,
            "json": parsed(&attachment.json),
        })).collect::<Vec<_>>(),
        "timestamp": message.timestamp,
        "json": parsed(&message.json),
    })
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| json.into())
}
