//! Faults of the callback server, on purpose.

use std::time::Duration;

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This HTTP status, with the endpoint's error body.
    Status(u16),
    /// The connection is closed without an answer.
    Close,
    /// `200`, and the connection is closed in the middle of the body.
    CloseMidBody,
    /// `307` to this URL.
    Redirect(String),
    /// `200`, with a body of this many bytes.
    HugeBody(usize),
    /// No answer, ever.
    Hang,
    /// The right answer, after this time.
    Delay(Duration),
}

/// When and how often a fault happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    pub(super) fault: Fault,
    pub(super) left: usize,
    pub(super) run_id: Option<String>,
    pub(super) ingest: bool,
}

impl Fault {
    /// For the next `count` callbacks.
    #[must_use]
    pub fn times(self, count: usize) -> FaultRule {
        FaultRule { fault: self, left: count, run_id: None, ingest: false }
    }

    /// For all callbacks, until [`Bcs::clear_faults`](super::super::Bcs::clear_faults).
    #[must_use]
    pub fn always(self) -> FaultRule {
        self.times(usize::MAX)
    }
}

impl FaultRule {
    /// Only for the callbacks of this run.
    #[must_use]
    pub fn for_run(mut self, run_id: &str) -> Self {
        self.run_id = Some(run_id.to_owned());
        self
    }

    /// The callback is checked and taken in first: the fault spoils only the answer. Otherwise the server never
    /// sees it (with [`Fault::Delay`]: sees it after the delay).
    #[must_use]
    pub fn ingested(mut self) -> Self {
        self.ingest = true;
        self
    }
}

/// The rule for a callback of this run, used once more.
pub(super) fn draw(rules: &mut Vec<FaultRule>, run_id: &str) -> Option<FaultRule> {
    let matches = |rule: &FaultRule| rule.left > 0 && rule.run_id.as_ref().is_none_or(|of| of == run_id);
    let rule = rules.iter_mut().find(|rule| matches(rule))?;
    if rule.left != usize::MAX {
        rule.left -= 1;
    }
    let drawn = rule.clone();
    rules.retain(|rule| rule.left > 0);
    Some(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_used_up_in_order_and_by_run() {
        let mut rules =
            vec![Fault::Close.times(1).for_run("a"), Fault::Status(503).times(2), Fault::Hang.always().for_run("b")];
        let mut draw = |run: &str| draw(&mut rules, run).map(|rule| rule.fault);
        assert_eq!(draw("b"), Some(Fault::Status(503)));
        assert_eq!(draw("a"), Some(Fault::Close));
        assert_eq!(draw("a"), Some(Fault::Status(503)));
        assert_eq!(draw("a"), None);
        assert_eq!(draw("b"), Some(Fault::Hang));
        assert_eq!(draw("b"), Some(Fault::Hang));
    }
}
