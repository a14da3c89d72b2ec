//! What a callback is authorized with.

use std::collections::BTreeMap;

use crate::wire::{BotRef, Secret};

/// How a callback shows whose it is: the provider's `auth.mode` at BCS.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// `static_bearer`: the bot's own `bot_runtime_token`, else the one for all bots.
    StaticBearer {
        /// For all bots that have none of their own.
        default: Option<Secret>,
        /// Of single bots.
        bots: BTreeMap<BotRef, Secret>,
    },
    /// `provider_admin`: the provider's `provider_admin_token`.
    ProviderAdmin(Secret),
}

impl Credentials {
    /// The setting to look at when there is no token.
    pub(super) fn setting(&self) -> &'static str {
        match self {
            Self::StaticBearer { .. } => "`provider.bot_runtime_token`, or the bot's own",
            Self::ProviderAdmin(_) => "`provider.provider_admin_token`",
        }
    }

    pub(super) fn token(&self, bot: &BotRef) -> Option<&Secret> {
        match self {
            Self::StaticBearer { default, bots } => bots.get(bot).or(default.as_ref()),
            Self::ProviderAdmin(token) => Some(token),
        }
        .filter(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn the_bot_s_own_token_comes_first() {
        let bot = |name| BotRef::parse(name).unwrap();
        let mixed = Credentials::StaticBearer {
            default: Some(Secret::new("all")),
            bots: BTreeMap::from([(bot("a"), Secret::new("own")), (bot("empty"), Secret::new(""))]),
        };
        assert_eq!(mixed.token(&bot("a")).unwrap().reveal(), "own");
        assert_eq!(mixed.token(&bot("b")).unwrap().reveal(), "all");
        assert!(mixed.token(&bot("empty")).is_none());
        let none = Credentials::StaticBearer { default: None, bots: BTreeMap::new() };
        assert!(none.token(&bot("a")).is_none());
        assert!(!format!("{mixed:?}").contains("own"));
    }
}
