//! A text that must never be shown.

use std::fmt;

use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;

/// A token. It has no `Display`, its `Debug` shows nothing, and it compares in constant time.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a token.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The token itself, for the one place that puts it on the wire.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is this token, in a time that does not depend on where they differ.
    /// The lengths are not hidden.
    #[must_use]
    pub fn matches(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_nothing_and_compares_whole() {
        let token = Secret::new("bcs_b2p_1234");
        assert_eq!(format!("{token:?}"), "[secret]");
        assert!(token.matches(b"bcs_b2p_1234"));
        assert!(!token.matches(b"bcs_b2p_123"));
        assert!(!token.matches(b""));
    }
}
