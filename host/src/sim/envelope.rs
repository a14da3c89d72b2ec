//! The guide's error envelope: `{"ok":false,"error":{code, message, retryable, retry_after_ms?}}`.

use serde_json::Value;

use super::violation::{Notes, ViolationKind};

/// The fields of an error envelope; what is missing is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorEnvelope {
    /// `code`, one of the guide's.
    pub code: String,
    /// `message`.
    pub message: String,
    /// `retryable`.
    pub retryable: Option<bool>,
    /// `retry_after_ms`.
    pub retry_after_ms: Option<u64>,
}

/// The guide's table: code, status, retryable.
const CODES: [(&str, u16, bool); 10] = [
    ("invalid_request", 400, false),
    ("unauthorized", 401, false),
    ("provider_id_mismatch", 403, false),
    ("bot_not_found", 404, false),
    ("conflict", 409, false),
    ("run_terminated", 410, false),
    ("rate_limited", 429, true),
    ("unsupported_method", 501, false),
    ("unavailable", 503, true),
    ("timeout", 504, true),
];

/// Reads the envelope of a refusal and notes where it departs from the guide.
pub(super) fn read_envelope(status: u16, body: &[u8], notes: &mut Notes) -> ErrorEnvelope {
    let mut wrong = |what: String| notes.push((ViolationKind::ErrorEnvelope, format!("HTTP {status}: {what}")));
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        wrong("the body is no JSON object".to_owned());
        return ErrorEnvelope::default();
    };
    if fields.get("ok") != Some(&Value::Bool(false)) {
        wrong("`ok` is not false".to_owned());
    }
    let Some(Value::Object(error)) = fields.get("error") else {
        wrong("`error` is no object".to_owned());
        return ErrorEnvelope::default();
    };
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let envelope = ErrorEnvelope {
        code: text("code"),
        message: text("message"),
        retryable: error.get("retryable").and_then(Value::as_bool),
        retry_after_ms: error.get("retry_after_ms").and_then(Value::as_u64),
    };
    if envelope.message.trim().is_empty() {
        wrong("`error.message` is missing or empty".to_owned());
    }
    if !matches!(error.get("retry_after_ms"), None | Some(Value::Null)) && envelope.retry_after_ms.is_none() {
        wrong("`error.retry_after_ms` is no whole number of milliseconds".to_owned());
    }
    match CODES.iter().find(|(code, ..)| *code == envelope.code) {
        None => wrong(format!("`error.code` is {:?}, which the guide does not know", envelope.code)),
        Some((code, expected, retryable)) => {
            // The guide has no code of its own for an unknown path, a wrong method, a body too large or of a wrong type.
            let of_http = *code == "invalid_request" && matches!(status, 404 | 405 | 408 | 413 | 414 | 415 | 431);
            if status != *expected && !of_http {
                wrong(format!("the code {code} goes with HTTP {expected}"));
            }
            if envelope.retryable != Some(*retryable) {
                wrong(format!("`error.retryable` of {code} is {retryable} in the guide"));
            }
        }
    }
    envelope
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::{ApiError, ErrorCode};

    fn notes(status: u16, body: &str) -> Notes {
        let mut notes = Notes::new();
        let _ = read_envelope(status, body.as_bytes(), &mut notes);
        notes
    }

    #[test]
    fn every_code_of_the_guide_passes() {
        use ErrorCode::*;
        let codes = [
            InvalidRequest,
            Unauthorized,
            ProviderIdMismatch,
            BotNotFound,
            Conflict,
            RunTerminated,
            RateLimited,
            UnsupportedMethod,
            Unavailable,
            Timeout,
        ];
        for code in codes {
            let body = ApiError::new(code, "why").retry_after_ms(5).to_json().to_string();
            assert_eq!(notes(code.status(), &body), [], "{body}");
        }
    }

    #[test]
    fn departures_are_noted_one_by_one() {
        let good = r#"{"ok":false,"error":{"code":"conflict","message":"m","retryable":false}}"#;
        assert!(notes(409, good).is_empty());
        assert_eq!(notes(400, good).len(), 1);
        for (from, to) in
            [("false,\"e", "true,\"e"), ("conflict", "clash"), ("\"m\"", "\"\""), ("e\":false", "e\":true")]
        {
            let bad = good.replace(from, to);
            assert_ne!(bad, good);
            assert_eq!(notes(409, &bad).len(), 1, "{bad}");
        }
        assert_eq!(notes(409, "conflict").len(), 1);
        assert_eq!(notes(409, r#"{"ok":false,"error":"conflict"}"#).len(), 1);
    }
}
