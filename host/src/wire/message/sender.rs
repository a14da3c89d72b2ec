//! The forwarded sender line (integration guide, "Token and Authentication Boundary"): one line of JSON with the
//! sender's id and name, a blank line, then the message.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Author;
use crate::wire::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    sender: &'a RawValue,
}

#[derive(Deserialize)]
struct Sender {
    id: Option<String>,
    name: Option<String>,
}

/// Takes a sender line off the text. What only resembles one stays: the text is the user's.
pub(super) fn take(text: String) -> (Option<Author>, String) {
    match split(&text) {
        Some((author, rest)) => (Some(author), rest.to_owned()),
        None => (None, text),
    }
}

fn split(text: &str) -> Option<(Author, &str)> {
    if !text.starts_with('{') {
        return None;
    }
    let (line, rest) = text.split_once('\n')?;
    let rest = rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\r\n"))?;
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    let sender: Sender = json::object("sender", line.sender).ok()?;
    if sender.id.is_none() && sender.name.is_none() {
        return None;
    }
    let name = sender.name.or_else(|| sender.id.clone()).unwrap_or_default();
    Some((Author { kind: "sender".into(), name, id: sender.id }, rest))
}
