//! Reading: the file, then the environment over it, each value checked against the table.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::build::build;
use super::table::{Kind, SETTINGS, Setting, find};
use super::tokens;
use crate::text::{excerpt, one_line};
use crate::wire::BotRef;

/// Why the settings cannot be used: a sentence that names file and line, or the variable, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// A value and where it came from, for messages. It may be a token, so it cannot be printed.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) texts: Vec<String>,
    pub(super) origin: String,
}

/// All values that were given, by section and key. Bots' tables have the section `bots.REF`.
pub(super) type Given = BTreeMap<(String, String), Value>;

/// Reads the settings of this process: `file` if given, else `avernest.toml` in the working directory if there is
/// one, and the environment.
///
/// # Errors
/// [`ConfigError`] for an unreadable file, an unknown key, a value of the wrong kind or out of range, and for what is
/// missing.
pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
    let default = Path::new("avernest.toml");
    let file = file.or_else(|| default.exists().then_some(default));
    let text = match file {
        None => None,
        Some(path) => Some((
            path.to_owned(),
            std::fs::read_to_string(path)
                .map_err(|e| ConfigError(format!("The settings file {} cannot be read: {e}.", path.display())))?,
        )),
    };
    let env = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    load_from(text.as_ref().map(|(p, t)| (p.as_path(), t.as_str())), env)
}

/// The same out of given parts.
///
/// # Errors
/// As [`load`].
pub fn load_from(
    file: Option<(&Path, &str)>,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let mut given = Given::new();
    if let Some((path, text)) = file {
        read_file(path, text, &mut given)?;
        if given.keys().any(|(_, key)| key.ends_with("_token")) {
            tokens::warn_if_open(path, "the settings file holds a token and");
        }
    }
    read_env(env, &mut given)?;
    build(&given)
}

fn read_file(path: &Path, text: &str, given: &mut Given) -> Result<(), ConfigError> {
    let at = |span: std::ops::Range<usize>| {
        let line = text.get(..span.start).unwrap_or(text).matches('\n').count() + 1;
        format!("{}, line {line}", path.display())
    };
    let root = DeTable::parse(text).map_err(|e| {
        let place = e.span().map_or_else(|| path.display().to_string(), &at);
        ConfigError(format!("{place}: this is not TOML: {}.", one_line(e.message(), 300)))
    })?;
    for (section, value) in root.get_ref() {
        let name = section.get_ref().as_ref();
        let DeValue::Table(table) = value.get_ref() else {
            return Err(ConfigError(format!(
                "{}: `{}` is not in a section. Put it under one of {}.",
                at(section.span()),
                excerpt(name),
                sections()
            )));
        };
        if name == "bots" {
            for (bot, value) in table {
                let DeValue::Table(keys) = value.get_ref() else {
                    return Err(ConfigError(format!(
                        "{}: `bots.{}` must be a table, like [bots.\"echo\"].",
                        at(bot.span()),
                        excerpt(bot.get_ref())
                    )));
                };
                BotRef::parse(bot.get_ref())
                    .map_err(|e| ConfigError(format!("{}: `bots.{}`: {e}.", at(bot.span()), excerpt(bot.get_ref()))))?;
                for (key, value) in keys {
                    let setting = tokens::bot_setting(key.get_ref()).ok_or_else(|| {
                        unknown(
                            &at(key.span()),
                            "bots.REF",
                            key.get_ref(),
                            &["bot_runtime_token", "bot_runtime_token_file"],
                        )
                    })?;
                    let value = file_value(setting, value, &at(value.span()))?;
                    given.insert((format!("bots.{}", bot.get_ref()), key.get_ref().to_string()), value);
                }
            }
            continue;
        }
        if !SETTINGS.iter().any(|s| s.section == name) {
            let known: Vec<_> = section_names();
            return Err(unknown(&at(section.span()), "", name, &known));
        }
        for (key, value) in table {
            let known: Vec<_> = SETTINGS.iter().filter(|s| s.section == name).map(|s| s.key).collect();
            let setting =
                find(name, key.get_ref()).ok_or_else(|| unknown(&at(key.span()), name, key.get_ref(), &known))?;
            let value = file_value(setting, value, &at(value.span()))?;
            given.insert((name.to_owned(), key.get_ref().to_string()), value);
        }
    }
    Ok(())
}

fn file_value(setting: &Setting, value: &Spanned<DeValue<'_>>, at: &str) -> Result<Value, ConfigError> {
    let name = format!("{}.{}", setting.section, setting.key);
    let texts = match (setting.kind, value.get_ref()) {
        (Kind::Text | Kind::Texts, DeValue::String(s)) => vec![s.to_string()],
        (Kind::Texts, DeValue::Array(list)) => list
            .iter()
            .map(|v| match v.get_ref() {
                DeValue::String(s) => Ok(s.to_string()),
                _ => Err(ConfigError(format!("{at}: `{name}` must be a text or a list of texts."))),
            })
            .collect::<Result<_, _>>()?,
        (Kind::Number(..), DeValue::Integer(n)) => vec![n.to_string()],
        (Kind::Text, _) => return Err(ConfigError(format!("{at}: `{name}` must be a text in quotes."))),
        (Kind::Texts, _) => return Err(ConfigError(format!("{at}: `{name}` must be a text or a list of texts."))),
        (Kind::Number(min, max), _) => {
            return Err(ConfigError(format!("{at}: `{name}` must be a whole number from {min} to {max}.")));
        }
    };
    check(setting, Value { texts, origin: at.to_owned() })
}

fn read_env(env: impl IntoIterator<Item = (String, String)>, given: &mut Given) -> Result<(), ConfigError> {
    for (name, text) in env {
        let Some((section, key)) = name.strip_prefix("AVERNEST_").and_then(|rest| rest.rsplit_once("__")) else {
            continue;
        };
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        let origin = format!("the environment variable {}", excerpt(&name));
        if let Some(bot) = section.strip_prefix("bots__") {
            let setting = tokens::bot_setting(&key)
                .ok_or_else(|| unknown(&origin, "bots.REF", &key, &["bot_runtime_token", "bot_runtime_token_file"]))?;
            let value = check(setting, Value { texts: vec![text], origin })?;
            given.insert((format!("bots.{bot}"), key), value);
            continue;
        }
        let Some(setting) = find(&section, &key) else {
            let known: Vec<_> = SETTINGS.iter().filter(|s| s.section == section).map(|s| s.key).collect();
            return Err(if known.is_empty() {
                unknown(&origin, "", &section, &section_names())
            } else {
                unknown(&origin, &section, &key, &known)
            });
        };
        // A list of tokens in the environment is separated by commas.
        let texts = match setting.kind {
            Kind::Texts => text.split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect(),
            _ => vec![text],
        };
        let value = check(setting, Value { texts, origin })?;
        given.insert((section, key), value);
    }
    Ok(())
}

/// Numbers in range; nothing else can be said without looking further.
fn check(setting: &Setting, value: Value) -> Result<Value, ConfigError> {
    if let (Kind::Number(min, max), Some(text)) = (setting.kind, value.texts.first()) {
        let ok = text.replace('_', "").parse::<u64>().is_ok_and(|n| (min..=max).contains(&n));
        if !ok {
            return Err(ConfigError(format!(
                "{}: `{}.{}` must be a whole number from {min} to {max}.",
                value.origin, setting.section, setting.key
            )));
        }
    }
    Ok(value)
}

fn section_names() -> Vec<&'static str> {
    let mut names: Vec<_> = SETTINGS.iter().map(|s| s.section).collect();
    names.dedup();
    names.push("bots");
    names
}

fn sections() -> String {
    section_names().iter().map(|s| format!("[{s}]")).collect::<Vec<_>>().join(", ")
}

fn unknown(at: &str, section: &str, key: &str, known: &[&str]) -> ConfigError {
    let near = crate::text::nearest(key, known.iter().copied());
    let key = excerpt(key);
    let what = if section.is_empty() { format!("section [{key}]") } else { format!("key `{key}` in [{section}]") };
    let hint = near.map_or_else(
        || "`avernest serve --print-config` lists all settings.".to_owned(),
        |n| format!("Did you mean `{n}`? `avernest serve --print-config` lists all settings."),
    );
    ConfigError(format!("{at}: there is no {what}. {hint}"))
}
