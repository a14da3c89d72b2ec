//! The body of a webhook request.

use std::collections::BTreeMap;

use avernest::wire::envelope::{Envelope, Method};
use avernest::wire::message::{Attachment, Message, RawMessage};
use avernest::wire::{ApiError, ErrorCode};
use serde_json::value::RawValue;

/// A body is refused with a short sentence, or it is read. What was read is the same when the body is spelled otherwise,
/// its fingerprint too; a message survives its record in the store, and can be put into a history page.
pub fn webhook_body(data: &[u8]) {
    let envelope = match Envelope::parse(data) {
        Ok(envelope) => envelope,
        Err(error) => return refused(&error),
    };
    let text = std::str::from_utf8(data).unwrap_or_default();
    let body: &RawValue = serde_json::from_str(text).unwrap_or(RawValue::NULL);

    let mut spelled = String::new();
    respell(body, Top::AsItIs, &mut spelled);
    let again = read(&spelled);
    assert_eq!(plain(&envelope), plain(&again), "{spelled}");
    assert_eq!(envelope.fingerprint, again.fingerprint, "{spelled}");

    let mut hurried = String::new();
    respell(body, Top::OtherTimeout, &mut hurried);
    assert_eq!(envelope.fingerprint, read(&hurried).fingerprint, "{hurried}");

    let added = format!("{{\"\\u0000added\":0,{}", body.get().get(1..).unwrap_or_default());
    if let Ok(more) = Envelope::parse(added.as_bytes()) {
        assert_ne!(envelope.fingerprint, more.fingerprint, "{added}");
    }

    let talks = matches!(envelope.method, Method::Send | Method::Inject);
    assert_eq!(talks, envelope.message.is_some());
    if let Some(raw) = envelope.message {
        message(&raw);
    }
}

fn refused(error: &ApiError) {
    assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
    super::sentence(&error.message, 1024);
}

#[track_caller]
fn read(body: &str) -> Envelope {
    match Envelope::parse(body.as_bytes()) {
        Ok(envelope) => envelope,
        Err(error) => {
            assert!(body.is_empty(), "the same body in another spelling: {error}\n{body}");
            std::process::abort()
        }
    }
}

/// What the host goes by, without the texts that are kept as they came.
fn plain(envelope: &Envelope) -> impl PartialEq + std::fmt::Debug + use<> {
    let message = envelope.message.as_ref().and_then(|raw| raw.parse().ok()).map(shown);
    let e = envelope.clone();
    (
        (e.id, e.method, e.provider_id, e.bot, e.tags),
        (e.session_id, e.group_id, e.timeout_ms, e.before, e.after, e.limit),
        (e.params.is_some(), e.extensions.is_some(), message),
    )
}

fn shown(message: Message) -> impl PartialEq + std::fmt::Debug {
    let parts = |a: Attachment| (a.name, a.media_type, a.url);
    (message.role, message.text, message.author, message.attachments.into_iter().map(parts).collect::<Vec<_>>())
}

fn message(raw: &RawMessage) {
    let message = raw.parse();
    assert!(message.is_ok(), "an accepted message does not parse: {message:?}");
    // As the store keeps it.
    let record = serde_json::to_vec(raw).unwrap_or_default();
    let kept = serde_json::from_slice::<RawMessage>(&record);
    assert!(kept.is_ok_and(|kept| kept.parse() == message), "{}", String::from_utf8_lossy(&record));

    let entry = raw.to_history("the id", 7);
    let field = |name: &str| entry.get(name).cloned().unwrap_or_default();
    assert!(field("role").is_string() && (field("content").is_string() || field("content").is_array()), "{entry}");
    assert!(field("id") == "the id" && field("timestamp") == 7, "{entry}");
}

/// What to do with the top level.
#[derive(Clone, Copy, PartialEq)]
enum Top {
    AsItIs,
    OtherTimeout,
    /// It is not the top.
    Inside,
}

/// The same JSON with its keys turned round, other white space and every character escaped; numbers as they came.
fn respell(raw: &RawValue, top: Top, out: &mut String) {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.push('{');
            for (i, (key, value)) in fields.iter().rev().enumerate() {
                out.push_str(if i == 0 { "" } else { " ,\t" });
                escape(key, out);
                out.push_str(" :\n");
                if top == Top::OtherTimeout && key == "timeout_ms" {
                    out.push_str("4321");
                } else {
                    respell(value, Top::Inside, out);
                }
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.push('[');
            for (i, item) in items.into_iter().enumerate() {
                out.push_str(if i == 0 { " " } else { "\r\n, " });
                respell(item, Top::Inside, out);
            }
            out.push(']');
        }
        Some(b'"') => escape(&serde_json::from_str::<String>(text).unwrap_or_default(), out),
        _ => out.push_str(text),
    }
}

fn escape(text: &str, out: &mut String) {
    out.push('"');
    for unit in text.encode_utf16() {
        out.push_str(&format!("\\u{unit:04X}"));
    }
    out.push('"');
}
