//! Names of bots and sessions, checked once where they enter.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A provider-local bot name (`provider_bot_ref`): 1 to 256 characters of `[A-Za-z0-9-_.:]`.
///
/// The rule is the coordination server's own (reference, section 6).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BotRef(Arc<str>);

/// Why a text is not a [`BotRef`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a bot reference has 1 to 256 characters out of A-Z a-z 0-9 - _ . : and nothing else")]
pub struct InvalidBotRef;

impl BotRef {
    /// The longest reference the server accepts, in characters (all of them ASCII).
    pub const MAX_LEN: usize = 256;

    /// Checks a text against the server's rule.
    ///
    /// # Errors
    /// [`InvalidBotRef`] if it is empty, too long or has another character.
    pub fn parse(text: &str) -> Result<Self, InvalidBotRef> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(allowed) {
            return Err(InvalidBotRef);
        }
        Ok(Self(text.into()))
    }

    /// The reference as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BotRef {
    type Error = InvalidBotRef;
    fn try_from(text: String) -> Result<Self, InvalidBotRef> {
        Self::parse(&text)
    }
}

impl From<BotRef> for String {
    fn from(bot: BotRef) -> Self {
        bot.0.as_ref().to_owned()
    }
}

impl fmt::Display for BotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What identifies a session: the bot and the session's name, exactly as received.
///
/// The session's name is opaque: never trimmed, folded or parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// The bot.
    pub bot: BotRef,
    /// The network's `session_id`.
    #[serde(with = "shared_text")]
    pub session: Arc<str>,
}

impl SessionKey {
    /// A key of its parts.
    pub fn new(bot: BotRef, session: impl Into<Arc<str>>) -> Self {
        Self { bot, session: session.into() }
    }
}

/// `Arc<str>` as a plain string: serde's own way needs a feature that would be on for every crate in the tree.
mod shared_text {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(text: &Arc<str>, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(d).map(Arc::from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_server_s_rule_for_names() {
        for good in ["a", "Echo-1_b.c:d", &"x".repeat(256)] {
            assert_eq!(BotRef::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a/b", "é", "a\n", "..\\x", "a\0", &"x".repeat(257)] {
            assert!(BotRef::parse(bad).is_err(), "{bad:?}");
        }
        assert!(serde_json::from_str::<BotRef>("\"a/b\"").is_err());
    }

    proptest! {
        #[test]
        fn keys_survive_a_record(bot in "[A-Za-z0-9_.:-]{1,256}", session in any::<String>()) {
            let key = SessionKey::new(BotRef::parse(&bot).unwrap(), session.as_str());
            let record = serde_json::to_value(&key).unwrap();
            prop_assert_eq!(&record, &serde_json::json!({"bot": bot, "session": session}));
            prop_assert_eq!(serde_json::from_value::<SessionKey>(record).unwrap(), key);
        }
    }
}
