//! The headers of a webhook request.

use avernest::wire::ApiError;
use avernest::wire::headers::{
    PROTOCOL_VERSION, ProtocolVersion, TIMESTAMP, accepts_event_stream, bearer, check_timestamp, is_json,
};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The headers are one a line, `name: value`; what HTTP itself would not let through is left out. Each function says no
/// more than what is there, a header that must be there once counts only if it is, and no sentence repeats a token.
pub fn webhook_headers(data: &[u8]) {
    let headers = read(data);
    token(&headers);
    version(&headers);
    for now in [0, 1_700_000_000_000, u64::MAX] {
        for skew in [0, 300_000, u64::MAX] {
            timestamp(&headers, now, skew);
        }
    }
    let lower = |name: &HeaderName| -> Vec<String> {
        headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()).to_ascii_lowercase()).collect()
    };
    if accepts_event_stream(&headers) {
        assert!(lower(&ACCEPT).iter().any(|value| value.contains("text/event-stream")));
    }
    if is_json(&headers) {
        let values = lower(&CONTENT_TYPE);
        assert!(values.len() == 1 && values.iter().all(|v| v.trim_start().starts_with("application/")), "{values:?}");
        assert!(values.iter().all(|value| value.contains("json")), "{values:?}");
    }
}

fn read(data: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii_start();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            // Too many are an error; the server's own bound is far below.
            let _ = headers.try_append(name, value);
        }
    }
    headers
}

/// The value of a header that is there once.
fn once<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes().trim_ascii())
}

fn token(headers: &HeaderMap) {
    let Some(token) = bearer(headers) else { return };
    let whole = once(headers, AUTHORIZATION.as_str()).unwrap_or_default();
    assert!(!token.is_empty() && token == token.trim_ascii() && whole.ends_with(token));
    assert!(whole.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer ")));
    // No sentence knows of it.
    let mut without = headers.clone();
    without.remove(AUTHORIZATION);
    assert_eq!(ProtocolVersion::of(headers), ProtocolVersion::of(&without));
    assert_eq!(check_timestamp(headers, 5, 5), check_timestamp(&without, 5, 5));
}

fn version(headers: &HeaderMap) {
    let value = once(headers, PROTOCOL_VERSION);
    match ProtocolVersion::of(headers) {
        Ok(version) => assert_eq!(value, Some(version.as_str().as_bytes())),
        Err(error) => {
            assert!(value.is_none_or(|value| value != b"1.0" && value != b"2.0"));
            refused(&error);
        }
    }
}

fn timestamp(headers: &HeaderMap, now: u64, skew: u64) {
    let value = once(headers, TIMESTAMP).filter(|v| !v.is_empty() && v.iter().all(u8::is_ascii_digit));
    let sent = value.and_then(|digits| {
        digits.iter().try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
    });
    let good = sent.is_some_and(|sent| sent.abs_diff(now) <= skew);
    match check_timestamp(headers, now, skew) {
        Ok(()) => assert!(good, "{value:?} at {now}"),
        Err(error) => {
            assert!(!good, "{error}");
            refused(&error);
        }
    }
}

fn refused(error: &ApiError) {
    assert_eq!(error.status, 400);
    super::sentence(&error.message, 1024);
}
