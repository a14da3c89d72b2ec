//! How the server puts a reply together from deltas and a final (reference, section 4.4, mode "Full").

/// The text of a reply as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text(String);

/// A final whose text does not begin with the deltas' text: the server has appended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotPrefix;

impl Text {
    /// Appends a delta.
    pub(super) fn delta(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Takes the text of a final: nothing keeps what there is, a snapshot replaces it, anything else is appended.
    pub(super) fn finish(&mut self, text: &str) -> Result<(), NotPrefix> {
        if text.starts_with(&self.0) {
            text.clone_into(&mut self.0);
        } else if !text.is_empty() {
            self.0.push_str(text);
            return Err(NotPrefix);
        }
        Ok(())
    }

    /// The text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_final_extends_or_keeps_or_is_appended() {
        let mut text = Text::default();
        text.delta("Hel");
        text.delta("lo");
        assert_eq!(text.clone().finish(""), Ok(()));
        assert_eq!(text.finish("Hello, you"), Ok(()));
        assert_eq!(text.as_str(), "Hello, you");
        assert_eq!(text.finish("Bye"), Err(NotPrefix));
        assert_eq!(text.as_str(), "Hello, youBye");
    }

    proptest! {
        #[test]
        fn a_snapshot_is_the_reply(parts in proptest::collection::vec(".{0,8}", 0..6), rest in ".{0,8}") {
            let mut text = Text::default();
            parts.iter().for_each(|part| text.delta(part));
            let whole = parts.concat() + &rest;
            text.finish(&whole).unwrap();
            prop_assert_eq!(text.as_str(), whole);
        }
    }
}
