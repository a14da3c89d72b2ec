//! The error envelope of a refused request (integration guide, "Error responses").

use serde::Serialize;

/// The guide's error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: header or body is not of the protocol's form. Also 404, 405 and 413 of the HTTP layer.
    InvalidRequest,
    /// 401: the token is missing or wrong.
    Unauthorized,
    /// 403: the request is for another provider.
    ProviderIdMismatch,
    /// 404: no such bot.
    BotNotFound,
    /// 409: the id was used before with another body.
    Conflict,
    /// 410: `chat.abort` met only runs that have ended.
    RunTerminated,
    /// 429: a queue is full.
    RateLimited,
    /// 501: a method that this provider does not have.
    UnsupportedMethod,
    /// 503: not now.
    Unavailable,
    /// 504: something this provider depends on took too long.
    Timeout,
}

impl ErrorCode {
    /// The HTTP status that the guide gives this code.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized => 401,
            Self::ProviderIdMismatch => 403,
            Self::BotNotFound => 404,
            Self::Conflict => 409,
            Self::RunTerminated => 410,
            Self::RateLimited => 429,
            Self::UnsupportedMethod => 501,
            Self::Unavailable => 503,
            Self::Timeout => 504,
        }
    }

    /// Whether the guide calls this code retryable.
    #[must_use]
    pub fn retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Unavailable | Self::Timeout)
    }
}

/// A refusal: what the server gets instead of an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Which of the guide's codes.
    pub code: ErrorCode,
    /// The HTTP status; the code's own but where the HTTP layer has a closer one (404, 405, 413).
    pub status: u16,
    /// A sentence that names the field or header, what was expected and what to do.
    pub message: String,
    /// When to come back, in milliseconds, for retryable codes.
    pub retry_after_ms: Option<u64>,
}

impl ApiError {
    /// A refusal with the code's own status.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, status: code.status(), message: message.into(), retry_after_ms: None }
    }

    /// Short for the most frequent one, `invalid_request`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// The same with another HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same with a time to come back.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// The envelope as JSON: `{"ok":false,"error":{…}}`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut error = serde_json::json!({
            "code": self.code,
            "message": self.message,
            "retryable": self.code.retryable(),
        });
        if let Some(ms) = self.retry_after_ms {
            error["retry_after_ms"] = ms.into();
        }
        serde_json::json!({ "ok": false, "error": error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_s_table() {
        use ErrorCode as C;
        let table = [
            (C::InvalidRequest, "invalid_request", 400, false),
            (C::Unauthorized, "unauthorized", 401, false),
            (C::ProviderIdMismatch, "provider_id_mismatch", 403, false),
            (C::BotNotFound, "bot_not_found", 404, false),
            (C::Conflict, "conflict", 409, false),
            (C::RunTerminated, "run_terminated", 410, false),
            (C::RateLimited, "rate_limited", 429, true),
            (C::UnsupportedMethod, "unsupported_method", 501, false),
            (C::Unavailable, "unavailable", 503, true),
            (C::Timeout, "timeout", 504, true),
        ];
        for (code, name, status, retryable) in table {
            let error = ApiError::new(code, "why");
            assert_eq!(error.status, status);
            let expected = serde_json::json!({
                "ok": false, "error": {"code": name, "message": "why", "retryable": retryable},
            });
            assert_eq!(error.to_json(), expected);
        }
    }

    #[test]
    fn what_the_http_layer_adds() {
        let error = ApiError::invalid("no such path").with_status(404).retry_after_ms(5);
        assert_eq!((error.status, error.to_string().as_str()), (404, "no such path"));
        assert_eq!(error.to_json()["error"]["retry_after_ms"], 5);
        assert_eq!(error.to_json()["error"]["code"], "invalid_request");
    }
}
