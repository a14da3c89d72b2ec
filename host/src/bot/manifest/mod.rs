//! A bot's manifest: `NAME.toml` beside `NAME.wasm`, or pointing to a component that several bots share.

mod limits;
mod text;

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

pub use self::limits::LimitOverrides;
use self::limits::LimitsTable;
use self::text::Source;
use super::Limits;
use crate::text::excerpt;
use crate::wire::BotRef;

/// What a manifest says. Without a manifest all of it is at its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// `ref`: the `provider_bot_ref`; else the file's stem is.
    pub bot_ref: Option<BotRef>,
    /// `component`: a `.wasm` file below the plugins folder; else it is the one of the same stem.
    pub component: Option<PathBuf>,
    /// `[bot]`: how the bot is registered with the network.
    pub bot: BotCard,
    /// `[limits]`, and `max_concurrent` of `[runs]`.
    pub limits: LimitOverrides,
    /// `rerun_after_crash` of `[runs]`: whether a run that was RUNNING when the host died may begin again.
    pub rerun_after_crash: bool,
}

/// A bot's display data, kept for its registration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BotCard {
    /// Its name.
    pub name: Option<String>,
    /// What it is good for, in a sentence.
    pub summary: Option<String>,
    /// The staff ids of its owners.
    pub owners: Vec<String>,
    /// Fields it knows.
    pub domains: Vec<String>,
    /// What it can do.
    pub skills: Vec<Skill>,
}

/// Something a bot can do: a name, or a name with a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a name, or a table with `name` and, if wanted, `description`")]
pub enum Skill {
    /// Only its name.
    Name(String),
    /// Name and description.
    Described(SkillCard),
}

/// A skill with its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillCard {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Why a manifest is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// The manifest's file name.
    pub file: String,
    /// The line, from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl std::error::Error for ManifestError {}

impl std::fmt::Display for ManifestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The file as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ManifestTable {
    r#ref: Option<Spanned<String>>,
    component: Option<Spanned<String>>,
    bot: BotCard,
    limits: LimitsTable,
    runs: RunsTable,
}

/// `[runs]` as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RunsTable {
    rerun_after_crash: bool,
    max_concurrent: Option<Spanned<i64>>,
}

impl Manifest {
    /// Reads a manifest's text. `file` is its name, for messages.
    ///
    /// # Errors
    /// A sentence with the file and the line, for text that is no TOML, an unknown key, or a value out of its range.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let source = Source { file, text };
        let table: ManifestTable = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        let bot_ref = match &table.r#ref {
            None => None,
            Some(text) => Some(BotRef::parse(text.get_ref()).map_err(|rule| {
                source.error(text.span(), format!("`ref` is \"{}\", but {rule}", excerpt(text.get_ref())))
            })?),
        };
        let component = match &table.component {
            None => None,
            Some(path) => Some(component_path(path.get_ref()).map_err(|message| source.error(path.span(), message))?),
        };
        let limits = table.limits.check(table.runs.max_concurrent.as_ref(), &source)?;
        Ok(Self { bot_ref, component, bot: table.bot, limits, rerun_after_crash: table.runs.rerun_after_crash })
    }

    /// The bot's limits: the host's, where the manifest has none of its own.
    #[must_use]
    pub fn limits(&self, defaults: &Limits) -> Limits {
        self.limits.over(defaults)
    }
}

/// Accepts a path that cannot lead out of the folder it is relative to.
fn component_path(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside || text.contains(['\\', '\0']) {
        return Err(format!(
            "`component` is \"{}\", but it must be a path inside the plugins folder, relative to it and without `..`",
            excerpt(text)
        ));
    }
    let named = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".wasm"));
    if named.is_none_or(str::is_empty) || text.ends_with('/') {
        return Err(format!("`component` is \"{}\", but it must name a file that ends in `.wasm`", excerpt(text)));
    }
    // `./a.wasm` and `a.wasm` are one file.
    Ok(path.components().filter(|part| matches!(part, Component::Normal(_))).collect())
}

#[cfg(test)]
mod tests;
