//! hyper's own refusals (a request line, header or length that it cannot read, headers that are too large) have no
//! body. Here they get the envelope that every other refusal has, before they reach the socket.

use std::io::IoSlice;

use bytes::Bytes;

use super::{MAX_HEADER_BYTES, MAX_HEADERS};
use crate::wire::ApiError;

/// More than hyper's refusals take.
const LONGEST: usize = 512;

/// What to write instead of `bufs`, if they are a refusal of hyper's own: an error with an empty body and no type.
/// Every answer of ours says what type its body has.
pub(super) fn instead_of(bufs: &[IoSlice<'_>]) -> Option<(usize, Bytes)> {
    let length = bufs.iter().map(|buf| buf.len()).sum();
    let first = bufs.iter().find(|buf| !buf.is_empty())?;
    if length > LONGEST || !first.starts_with(b"HTTP/1.") {
        return None;
    }
    let head: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
    let head = std::str::from_utf8(&head).ok()?.strip_suffix("\r\n\r\n")?;
    let (status_line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let status: u16 = status_line.get(9..12)?.parse().ok()?;
    if !(400..600).contains(&status) || headers.to_ascii_lowercase().contains("content-type:") {
        return None;
    }
    Some((length, Bytes::from(answer(status_line, status))))
}

/// The refusal of a request with too many headers, or too large ones.
pub(super) fn headers_too_large() -> ApiError {
    ApiError::invalid(format!(
        "The request's headers are too large: together they may have {} KiB, and there may be {MAX_HEADERS}.",
        MAX_HEADER_BYTES / 1024
    ))
    .with_status(431)
}

fn answer(status_line: &str, status: u16) -> String {
    let error = match status {
        414 => ApiError::invalid("The request's path is too long; the webhook's has a few characters."),
        431 => headers_too_large(),
        _ => ApiError::invalid(
            "This is no HTTP request that can be read: the request line, a header or `Content-Length` is malformed.",
        ),
    };
    let body = error.with_status(status).to_json().to_string();
    format!(
        "{status_line}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn replaced(parts: &[&str]) -> Option<String> {
        let bufs: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part.as_bytes())).collect();
        let (length, bytes) = instead_of(&bufs)?;
        assert_eq!(length, parts.concat().len());
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn hypers_own_refusals_get_an_envelope() {
        let text =
            replaced(&["", "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n", "\r\n"]).unwrap();
        assert!(text.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"));
        assert!(text.contains("32 KiB"), "{text}");
        let text = replaced(&["HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"]).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["ok"], false);
        assert_eq!(body["error"]["code"], "invalid_request");
    }

    #[test]
    fn nothing_else_is_touched() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "data: HTTP/1.1 400 Bad Request\r\n\r\n",
            "HTTP/1.",
            "",
        ] {
            assert_eq!(replaced(&[text]), None, "{text}");
        }
    }
}
