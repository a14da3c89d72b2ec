//! From a place in a manifest's text to a sentence about it.

use std::ops::Range;

use super::ManifestError;
use crate::text::{excerpt, one_line};

/// How much of the toml crate's words goes into a sentence, in characters.
const WORDS: usize = 500;

/// The text a manifest is read from.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// An error about a part of the text.
    pub(super) fn error(&self, span: Range<usize>, message: String) -> ManifestError {
        ManifestError { file: self.file.to_owned(), line: Some(self.line(span.start)), message }
    }

    /// The toml crate's error in our words.
    pub(super) fn toml_error(&self, error: &toml::de::Error) -> ManifestError {
        let start = error.span().map(|span| span.start);
        let message = match UnknownKey::of(error.message()) {
            Some(unknown) => unknown.sentence(),
            None => match start.and_then(|start| self.key(start)) {
                Some(key) => format!("`{}`: {}", excerpt(key), one_line(error.message(), WORDS)),
                None => one_line(error.message(), WORDS),
            },
        };
        ManifestError { file: self.file.to_owned(), line: start.map(|start| self.line(start)), message }
    }

    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// The key of the line that `at` is in. Only the key: the value may be something to keep quiet about.
    fn key(&self, at: usize) -> Option<&str> {
        let line_start = self.text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
        let key = self.text.get(line_start..at)?.split_once('=')?.0.trim();
        let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        (!key.is_empty() && key.bytes().all(bare)).then_some(key)
    }
}

/// What serde says of a key that a struct with `deny_unknown_fields` does not have.
struct UnknownKey<'a> {
    key: &'a str,
    known: Vec<&'a str>,
}

impl<'a> UnknownKey<'a> {
    /// Takes serde's "unknown field `x`, expected one of `a`, `b`" apart.
    fn of(message: &'a str) -> Option<Self> {
        // The known keys hold no backtick, so the key, which may, ends at the last "`, ".
        let rest = message.strip_prefix("unknown field `")?;
        let (key, known) = rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no fields"))?;
        Some(Self { key, known: known.split('`').skip(1).step_by(2).collect() })
    }

    fn sentence(&self) -> String {
        let nearest = self.known.iter().map(|known| (strsim::levenshtein(self.key, known), *known)).min();
        match nearest {
            // A third of the letters wrong is still a slip of the hand; more is another word.
            Some((distance, known)) if distance <= known.len().max(3) / 3 => {
                format!("unknown key \"{}\"; did you mean `{known}`?", excerpt(self.key))
            }
            _ => {
                let known: Vec<String> = self.known.iter().map(|known| format!("`{known}`")).collect();
                format!("unknown key \"{}\"; known here are {}", excerpt(self.key), known.join(", "))
            }
        }
    }
}
