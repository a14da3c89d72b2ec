//! Tokens, given as they are or as the path of a file that holds one.

use std::path::Path;

use super::load::{ConfigError, Given};
use super::table::{Kind, Setting};
use crate::wire::Secret;

const BOT_SETTINGS: &[Setting] = &[
    Setting { section: "bots.REF", key: "bot_runtime_token", kind: Kind::Text, default: None, meaning: "" },
    Setting { section: "bots.REF", key: "bot_runtime_token_file", kind: Kind::Text, default: None, meaning: "" },
];

/// The settings of a `[bots.REF]` table.
pub(super) fn bot_setting(key: &str) -> Option<&'static Setting> {
    BOT_SETTINGS.iter().find(|s| s.key == key)
}

/// Where tokens are read from.
pub(super) struct TokenSource<'a> {
    given: &'a Given,
}

impl<'a> TokenSource<'a> {
    pub(super) fn new(given: &'a Given) -> Self {
        Self { given }
    }

    /// All tokens under `key` and `key_file`.
    pub(super) fn many(&self, section: &str, key: &str) -> Result<Vec<Secret>, ConfigError> {
        let mut tokens = Vec::new();
        if let Some(value) = self.given.get(&(section.to_owned(), key.to_owned())) {
            for text in value.texts.iter().filter(|t| !t.is_empty()) {
                tokens.push(checked(text.trim(), &format!("{}: `{section}.{key}`", value.origin))?);
            }
        }
        let file_key = format!("{key}_file");
        if let Some(value) = self.given.get(&(section.to_owned(), file_key.clone())) {
            for path in value.texts.iter().filter(|t| !t.is_empty()) {
                tokens.push(from_file(Path::new(path), &format!("{}: `{section}.{file_key}`", value.origin))?);
            }
        }
        Ok(tokens)
    }

    /// The one token under `key` or `key_file`.
    pub(super) fn one(&self, section: &str, key: &str) -> Result<Option<Secret>, ConfigError> {
        let mut tokens = self.many(section, key)?;
        if tokens.len() > 1 {
            return Err(ConfigError(format!(
                "`{section}.{key}` and `{section}.{key}_file` are both set. Keep one of them."
            )));
        }
        Ok(tokens.pop())
    }
}

fn from_file(path: &Path, what: &str) -> Result<Secret, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| ConfigError(format!("{what}: the file {} cannot be read: {e}.", path.display())))?;
    warn_if_open(path, "the token file");
    let token = text.trim();
    if token.is_empty() {
        return Err(ConfigError(format!("{what}: the file {} holds no token.", path.display())));
    }
    checked(token, &format!("{what}: the file {}", path.display()))
}

/// Whether others than its owner may do anything with a file.
pub(super) fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0)
}

/// Says so of a file that holds a token.
pub(super) fn warn_if_open(path: &Path, what: &str) {
    if is_open(path) {
        tracing::warn!(file = ?path, "{what} can be read by others than its owner; `chmod 600` it");
    }
}

/// A token goes into a header, so it must be able to.
fn checked(token: &str, what: &str) -> Result<Secret, ConfigError> {
    if !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(Secret::new(token));
    }
    Err(ConfigError(format!("{what} must be one line of visible ASCII characters without spaces.")))
}
