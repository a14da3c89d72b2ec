//! How bots and files stand, for `bot.ping`, the console and people.

use serde::Serialize;

use crate::wire::BotRef;

/// Where a bot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BotState {
    /// Its file is there and no build of it has been loaded yet.
    Loading,
    /// It can be called.
    Serving,
    /// It cannot be called; its `last_error` says why.
    Broken,
}

/// How a bot stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BotStatus {
    /// Its `provider_bot_ref`.
    #[serde(rename = "provider_bot_ref")]
    pub bot_ref: BotRef,
    /// The file that gives it: its `.wasm`, or the `.toml` where the `.wasm` has another name.
    pub file: String,
    /// Where it stands.
    pub state: BotState,
    /// SHA-256 of the `.wasm` that is served, in hex.
    pub version: Option<String>,
    /// Since when that is served, Unix milliseconds.
    pub loaded_at: Option<u64>,
    /// Why the file as it is now is not what is served; `None` once it is.
    pub last_error: Option<LastError>,
    /// How often a newer build or manifest took the place of the one before.
    pub reloads: u64,
    /// Whether the file as it is now was refused while an older build goes on serving.
    pub newer_refused: bool,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// A sentence.
    pub message: String,
    /// When, Unix milliseconds.
    pub at: u64,
}

/// A file that is served under no reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileProblem {
    /// The file, relative to the plugins folder; the folder's own path if it is about the folder.
    pub file: String,
    /// A sentence.
    pub message: String,
    /// Since when, Unix milliseconds.
    pub at: u64,
}
