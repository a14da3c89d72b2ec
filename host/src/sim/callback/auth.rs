//! Whose a callback is (reference, section 5.1).

use http::HeaderMap;

use super::super::options::{AuthMode, BcsOptions};
use super::Verdict;
use crate::wire::headers::{PROVIDER_BOT_REF, PROVIDER_ID, bearer};

/// Checks the token before the run is looked up.
pub(super) fn authenticate(options: &BcsOptions, headers: &HeaderMap) -> Result<(), Verdict> {
    let Some(provider_id) = headers.get(PROVIDER_ID) else {
        return Err(Verdict::error(400, "invalid_request", "the header X-BCN-Provider-Id is missing"));
    };
    let Some(token) = bearer(headers) else {
        return Err(Verdict::error(401, "unauthorized", "there is no bearer token"));
    };
    let mode = |mode| {
        let what = "the provider is registered with another auth mode";
        if options.auth_mode == mode { Ok(()) } else { Err(Verdict::error(401, "auth_mode_mismatch", what)) }
    };
    if is_jwt_shaped(token) {
        return Err(Verdict::error(401, "auth_mode_mismatch", "the token is taken for an agent pass"));
    }
    let is_admin = options.provider_admin_token.matches(token);
    if !is_admin && !options.is_runtime_token(token) {
        return Err(Verdict::error(401, "unauthorized", "the token is unknown"));
    }
    if provider_id.as_bytes() != options.provider_id.as_bytes() {
        return Err(Verdict::error(403, "provider_id_mismatch", "the token is of another provider"));
    }
    if !is_admin {
        return mode(AuthMode::StaticBearer);
    }
    mode(AuthMode::ProviderAdmin)?;
    if headers.get(PROVIDER_BOT_REF).is_none_or(http::HeaderValue::is_empty) {
        return Err(Verdict::error(400, "invalid_request", "the header X-BCN-Provider-Bot-Ref is missing"));
    }
    Ok(())
}

/// Checks that the caller is the bot of the run.
pub(super) fn identify(options: &BcsOptions, headers: &HeaderMap, bot: &str) -> Result<(), Verdict> {
    let is_bot = match options.auth_mode {
        AuthMode::ProviderAdmin => headers.get(PROVIDER_BOT_REF).is_some_and(|name| name.as_bytes() == bot.as_bytes()),
        AuthMode::StaticBearer => {
            let token = bearer(headers).unwrap_or_default();
            options.runtime_token(bot).is_some_and(|expected| expected.matches(token))
        }
    };
    if is_bot { Ok(()) } else { Err(Verdict::error(403, "forbidden", "the run belongs to another bot")) }
}

/// Three parts with dots between them are taken for a JSON web token.
fn is_jwt_shaped(token: &[u8]) -> bool {
    let parts: Vec<_> = token.split(|byte| *byte == b'.').collect();
    parts.len() == 3 && parts.iter().all(|part| !part.is_empty())
}
