//! The protocol's HTTP headers (reference, section 1.1).

use http::HeaderMap;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};

use super::error::ApiError;
use super::json::excerpt;

/// `X-BCN-Protocol-Version`
pub const PROTOCOL_VERSION: &str = "x-bcn-protocol-version";
/// `X-BCN-Timestamp`
pub const TIMESTAMP: &str = "x-bcn-timestamp";
/// `X-BCN-Message-Id`
pub const MESSAGE_ID: &str = "x-bcn-message-id";
/// `X-BCN-Transport`
pub const TRANSPORT: &str = "x-bcn-transport";
/// `X-BCN-Provider-Id`
pub const PROVIDER_ID: &str = "x-bcn-provider-id";
/// `X-BCN-Provider-Bot-Ref`
pub const PROVIDER_BOT_REF: &str = "x-bcn-provider-bot-ref";
/// `X-BCN-Event-Id`
pub const EVENT_ID: &str = "x-bcn-event-id";

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// `1.0`
    V1,
    /// `2.0`
    V2,
}

impl ProtocolVersion {
    /// As it is written in the header.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V2 => "2.0",
        }
    }

    /// Reads the header.
    ///
    /// # Errors
    /// `invalid_request` if it is missing or neither `1.0` nor `2.0`.
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        match single(headers, PROTOCOL_VERSION, "X-BCN-Protocol-Version")? {
            b"1.0" => Ok(Self::V1),
            b"2.0" => Ok(Self::V2),
            other => Err(ApiError::invalid(format!(
                "header `X-BCN-Protocol-Version`: expected `1.0` or `2.0`, found `{}`",
                excerpt(&String::from_utf8_lossy(other))
            ))),
        }
    }
}

/// The value of a header that is there exactly once, white space around it taken off.
fn single<'a>(headers: &'a HeaderMap, name: &str, shown: &str) -> Result<&'a [u8], ApiError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value.as_bytes().trim_ascii()),
        (None, _) => Err(ApiError::invalid(format!("header `{shown}` is missing"))),
        (Some(_), Some(_)) => Err(ApiError::invalid(format!("header `{shown}`: expected once, found several times"))),
    }
}

/// The bearer token of an `Authorization` header; `None` if there is none of that form, or more than one header.
/// The scheme's case is free.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = single(headers, AUTHORIZATION.as_str(), "Authorization").ok()?;
    let (scheme, token) = value.split_at_checked(b"Bearer".len())?;
    let (space, token) = (token.first()?, token.trim_ascii());
    (scheme.eq_ignore_ascii_case(b"Bearer") && *space == b' ' && !token.is_empty()).then_some(token)
}

/// Checks `X-BCN-Timestamp` (Unix milliseconds) against `now`.
///
/// # Errors
/// `invalid_request` if it is missing, no decimal number, or further from `now` than `max_skew_ms`.
pub fn check_timestamp(headers: &HeaderMap, now: u64, max_skew_ms: u64) -> Result<(), ApiError> {
    let value = single(headers, TIMESTAMP, "X-BCN-Timestamp")?;
    // By hand: `parse` also takes a plus sign.
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let Some(sent) = digits.and_then(|text| text.parse::<u64>().ok()) else {
        return Err(ApiError::invalid(format!(
            "header `X-BCN-Timestamp`: expected Unix milliseconds in decimal digits, found `{}`",
            excerpt(&String::from_utf8_lossy(value))
        )));
    };
    let skew = sent.abs_diff(now);
    if skew > max_skew_ms {
        let side = if sent < now { "behind" } else { "ahead of" };
        return Err(ApiError::invalid(format!(
            "header `X-BCN-Timestamp`: {sent} is {skew} ms {side} this host's clock, and {max_skew_ms} ms are allowed \
             (`limits.max_clock_skew_seconds`): compare both clocks"
        )));
    }
    Ok(())
}

/// Whether `Accept` lists `text/event-stream` with a weight above zero.
#[must_use]
pub fn accepts_event_stream(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named = parts.next().is_some_and(|media| media.eq_ignore_ascii_case("text/event-stream"));
        let weight = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().unwrap_or(0.0))
        });
        named && weight.is_none_or(|weight| weight > 0.0)
    })
}

/// Whether `Content-Type` is JSON: `application/json` or `application/*+json`, parameters aside.
#[must_use]
pub fn is_json(headers: &HeaderMap) -> bool {
    let Ok(value) = single(headers, CONTENT_TYPE.as_str(), "Content-Type") else { return false };
    let media = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    match media.strip_prefix(b"application/") {
        Some(b"json") => true,
        Some(sub) => sub.len() > b"+json".len() && sub.ends_with(b"+json"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use http::HeaderValue;

    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn knows_two_versions() {
        let of = |value| ProtocolVersion::of(&headers(&[(PROTOCOL_VERSION, value)]));
        assert_eq!(of("1.0").unwrap(), ProtocolVersion::V1);
        assert_eq!(of(" 2.0 ").unwrap(), ProtocolVersion::V2);
        for wrong in ["", "1", "2", "3.0", "1.0, 2.0", "v1.0"] {
            assert!(of(wrong).unwrap_err().message.contains("X-BCN-Protocol-Version"), "{wrong}");
        }
        assert!(ProtocolVersion::of(&HeaderMap::new()).unwrap_err().message.contains("missing"));
        let twice = headers(&[(PROTOCOL_VERSION, "1.0"), (PROTOCOL_VERSION, "1.0")]);
        assert!(ProtocolVersion::of(&twice).is_err());
        let long = ProtocolVersion::of(&headers(&[(PROTOCOL_VERSION, const { str_of(&[b'x'; 4000]) })])).unwrap_err();
        assert!(long.message.len() < 200);
    }

    const fn str_of(bytes: &[u8]) -> &str {
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => "",
        }
    }

    #[test]
    fn finds_the_bearer_token() {
        let of = |value| {
            let map = headers(&[("authorization", value)]);
            bearer(&map).map(|token| String::from_utf8(token.to_vec()).unwrap())
        };
        assert_eq!(of("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(of("bEARER   abc ").as_deref(), Some("abc"));
        assert_eq!(of("Bearer a b").as_deref(), Some("a b"));
        for none in ["", "Bearer", "Bearer ", "Bearerabc", "Basic abc", "abc", "Bear"] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
        assert_eq!(bearer(&headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")])), None);
    }

    #[test]
    fn compares_clocks() {
        let check = |value, now| check_timestamp(&headers(&[(TIMESTAMP, value)]), now, 300);
        assert!(check("1000", 1300).is_ok());
        assert!(check("1300", 1000).is_ok());
        assert!(check("1000", 1301).unwrap_err().message.contains("301 ms behind"));
        assert!(check("1301", 1000).unwrap_err().message.contains("301 ms ahead"));
        for wrong in ["", "+1000", "-1", "1e3", "1000.0", "0x3e8", "99999999999999999999"] {
            assert!(check(wrong, 1000).unwrap_err().message.contains("X-BCN-Timestamp"), "{wrong}");
        }
        assert!(check_timestamp(&HeaderMap::new(), 1, 1).unwrap_err().message.contains("missing"));
    }

    #[test]
    fn reads_accept_and_content_type() {
        let accepts = |value| accepts_event_stream(&headers(&[("accept", value)]));
        for yes in [
            "text/event-stream, application/json",
            "application/json,TEXT/Event-Stream;q=0.1",
            "text/event-stream; charset=utf-8; Q=1",
        ] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["application/json", "*/*", "text/*", "text/event-stream;q=0", "text/event-stream; q=0.000", "text"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepts_event_stream(&HeaderMap::new()));

        let json = |value| is_json(&headers(&[("content-type", value)]));
        for yes in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json;a=b"] {
            assert!(json(yes), "{yes}");
        }
        for no in ["", "text/json", "application/jsonx", "application/+json", "application/xml", "json"] {
            assert!(!json(no), "{no}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
