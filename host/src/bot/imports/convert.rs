//! Between the host's shapes and those of the WIT contract.

use super::{ERROR_TEXT, cut};
use crate::bot::bindings::avernest::bot::types;
use crate::bot::call::{CallError, PastMessage, RequestInfo};
use crate::wire::Role;

pub(in crate::bot) fn export_request(request: &RequestInfo) -> types::Request {
    types::Request {
        id: request.id.clone(),
        session: request.session.clone(),
        group: request.group.clone(),
        tags: request.tags.clone(),
        deadline: request.deadline,
        extensions: request.extensions.clone(),
    }
}

pub(in crate::bot) fn export_message(past: PastMessage) -> types::Message {
    let PastMessage { message, timestamp } = past;
    types::Message {
        role: match message.role {
            Role::User => types::Role::User,
            Role::Assistant => types::Role::Assistant,
            Role::System => types::Role::System,
        },
        text: message.text,
        author: message.author.map(|author| types::Author { kind: author.kind, name: author.name, id: author.id }),
        attachments: message
            .attachments
            .into_iter()
            .map(|attachment| types::Attachment {
                name: attachment.name,
                media_type: attachment.media_type,
                url: attachment.url,
                json: attachment.json,
            })
            .collect(),
        timestamp,
        json: message.json,
    }
}

pub(in crate::bot) fn export_failure(failure: types::Failure) -> CallError {
    match failure {
        types::Failure::Rejected(text) => CallError::Rejected(cut(text, ERROR_TEXT)),
        types::Failure::Unavailable(text) => CallError::Unavailable(cut(text, ERROR_TEXT)),
        types::Failure::Failed(text) => CallError::Failed(cut(text, ERROR_TEXT)),
    }
}

/// The size of a message as it is handed to a guest.
pub(super) fn message_bytes(past: &PastMessage) -> usize {
    let message = &past.message;
    let attachments: usize = message
        .attachments
        .iter()
        .map(|attachment| {
            attachment.json.len()
                + [&attachment.name, &attachment.media_type, &attachment.url]
                    .into_iter()
                    .map(|text| text.as_ref().map_or(0, String::len))
                    .sum::<usize>()
        })
        .sum();
    let author = message
        .author
        .as_ref()
        .map_or(0, |author| author.kind.len() + author.name.len() + author.id.as_ref().map_or(0, String::len));
    message.text.len() + message.json.len() + attachments + author
}

impl types::Host for crate::bot::guest::GuestState {}
