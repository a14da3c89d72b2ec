//! Callbacks in the worker's hands that have not begun, bot by bot, so that none waits for another's.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;

use crate::store::OutboxEntry;
use crate::wire::BotRef;

#[derive(Debug)]
pub(super) struct Waiting {
    bots: BTreeMap<BotRef, Lane>,
    /// Runs that wait or are under way: a lease may end meanwhile, and the store then gives the entry again.
    known: HashSet<String>,
    waiting: usize,
    /// The bot that was served last: the next in turn comes after it.
    last: Option<BotRef>,
    at_once_per_bot: usize,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<OutboxEntry>,
    under_way: usize,
}

impl Waiting {
    pub(super) fn new(at_once_per_bot: usize) -> Self {
        Self { bots: BTreeMap::new(), known: HashSet::new(), waiting: 0, last: None, at_once_per_bot }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Takes an entry in, unless it is here already.
    pub(super) fn push(&mut self, entry: OutboxEntry) {
        if self.known.insert(entry.run_id.clone()) {
            self.waiting += 1;
            self.bots.entry(entry.bot.clone()).or_default().waiting.push_back(entry);
        }
    }

    /// The next entry to begin with, the bots taking turns. It is under way until [`Waiting::ended`].
    pub(super) fn begin(&mut self, is_held: impl Fn(&str) -> bool) -> Option<OutboxEntry> {
        let at_once = self.at_once_per_bot;
        let mut next = |lanes: (Bound<BotRef>, Bound<BotRef>)| {
            self.bots.range_mut(lanes).filter(|(_, lane)| lane.under_way < at_once).find_map(|(_, lane)| {
                let ready = lane.waiting.iter().position(|entry| !is_held(&entry.run_id))?;
                lane.under_way += 1;
                lane.waiting.remove(ready)
            })
        };
        let after = self.last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let entry = next((after, Bound::Unbounded)).or_else(|| next((Bound::Unbounded, Bound::Unbounded)))?;
        self.waiting -= 1;
        self.last = Some(entry.bot.clone());
        Some(entry)
    }

    /// An entry that was under way is so no more.
    pub(super) fn ended(&mut self, bot: &BotRef, run_id: &str) {
        self.known.remove(run_id);
        if let Some(lane) = self.bots.get_mut(bot) {
            lane.under_way = lane.under_way.saturating_sub(1);
            if lane.under_way == 0 && lane.waiting.is_empty() {
                self.bots.remove(bot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::network::tests::entry;

    fn begun(waiting: &mut Waiting, held: &[&str]) -> Option<String> {
        waiting.begin(|run| held.contains(&run)).map(|entry| entry.run_id)
    }

    #[test]
    fn bots_take_turns_up_to_their_bound() {
        let mut waiting = Waiting::new(2);
        for (bot, run) in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("a", "a1")] {
            waiting.push(entry(bot, run, 1));
        }
        assert_eq!(waiting.len(), 5);
        let order: Vec<_> = std::iter::from_fn(|| begun(&mut waiting, &["c1"])).collect();
        assert_eq!(order, ["a1", "b1", "a2"]);
        assert_eq!(begun(&mut waiting, &[]).as_deref(), Some("c1"));
        // Given again while under way: not here twice.
        waiting.push(entry("a", "a1", 1));
        assert_eq!((waiting.len(), begun(&mut waiting, &[])), (1, None));
        waiting.ended(&BotRef::parse("a").unwrap(), "a1");
        assert_eq!(begun(&mut waiting, &[]).as_deref(), Some("a3"));
        waiting.push(entry("a", "a1", 1));
        for (bot, run) in [("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")] {
            waiting.ended(&BotRef::parse(bot).unwrap(), run);
        }
        assert_eq!(begun(&mut waiting, &[]).as_deref(), Some("a1"));
        waiting.ended(&BotRef::parse("a").unwrap(), "a1");
        assert!(waiting.bots.is_empty() && waiting.known.is_empty() && waiting.len() == 0);
    }

    #[test]
    fn a_held_run_does_not_hold_up_its_bot() {
        let mut waiting = Waiting::new(2);
        waiting.push(entry("a", "a1", 1));
        waiting.push(entry("a", "a2", 1));
        assert_eq!(begun(&mut waiting, &["a1"]).as_deref(), Some("a2"));
        assert_eq!(begun(&mut waiting, &["a1"]), None);
        assert_eq!(begun(&mut waiting, &[]).as_deref(), Some("a1"));
    }
}
