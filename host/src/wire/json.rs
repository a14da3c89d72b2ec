//! Reading JSON field by field, so that an error can say which field it is about, what was expected and what was found.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ApiError;

/// The most characters of somebody's input that an error repeats.
const EXCERPT: usize = 60;

/// The beginning of a text, escaped, for an error message.
pub(super) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(EXCERPT).flat_map(char::escape_debug).collect();
    if text.chars().nth(EXCERPT).is_some() {
        short.push('…');
    }
    short
}

/// What kind of value this is, in words.
pub(super) fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The refusal of a field of the wrong kind.
pub(super) fn wrong(name: &str, expected: &str, raw: &RawValue) -> ApiError {
    ApiError::invalid(format!("field `{name}`: expected {expected}, found {}", kind(raw)))
}

/// The refusal of a field that is not there.
pub(super) fn missing(name: &str, expected: &str) -> ApiError {
    ApiError::invalid(format!("field `{name}` is missing: expected {expected}"))
}

/// A value that serde_json can read although its kind is right. Not reached after the envelope's check of the whole
/// body; a message from a damaged record comes here.
fn unreadable(name: &str, error: &serde_json::Error) -> ApiError {
    ApiError::invalid(format!("field `{name}` cannot be read: {error}"))
}

/// A string.
pub(super) fn text(name: &str, raw: &RawValue) -> Result<String, ApiError> {
    if kind(raw) != "a string" {
        return Err(wrong(name, "a string", raw));
    }
    serde_json::from_str(raw.get()).map_err(|error| unreadable(name, &error))
}

/// A string of at most `max` bytes.
pub(super) fn short_text(name: &str, raw: &RawValue, max: usize) -> Result<String, ApiError> {
    let text = text(name, raw)?;
    if text.len() > max {
        let found = text.len();
        return Err(ApiError::invalid(format!("field `{name}`: expected at most {max} bytes, found {found}")));
    }
    Ok(text)
}

/// A whole number of at least `least`.
pub(super) fn whole(name: &str, raw: &RawValue, least: u64) -> Result<u64, ApiError> {
    let expected = format!("a whole number, {least} or more");
    if kind(raw) != "a number" {
        return Err(wrong(name, &expected, raw));
    }
    match raw.get().parse::<u64>() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(ApiError::invalid(format!("field `{name}`: expected {expected}, found {}", excerpt(raw.get())))),
    }
}

/// The fields of an object, as `T` names them.
pub(super) fn object<'a, T: Deserialize<'a>>(name: &str, raw: &'a RawValue) -> Result<T, ApiError> {
    if kind(raw) != "an object" {
        return Err(wrong(name, "an object", raw));
    }
    serde_json::from_str(raw.get()).map_err(|error| unreadable(name, &error))
}

/// The items of an array.
pub(super) fn items<'a>(name: &str, raw: &'a RawValue, expected: &str) -> Result<Vec<&'a RawValue>, ApiError> {
    if kind(raw) != "an array" {
        return Err(wrong(name, expected, raw));
    }
    serde_json::from_str(raw.get()).map_err(|error| unreadable(name, &error))
}

/// Any value as JSON; `null` for what JSON cannot say, which nothing here is.
pub(super) fn raw(value: &serde_json::Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
