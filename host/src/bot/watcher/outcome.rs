//! What becomes of a file that was tried: served, waited for, or broken.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use tokio::time::Instant;

use super::load::{Job, LoadEnd};
use super::read::{Prepared, Refusal};
use super::scan::{Sight, with_ending};
use super::unit::{Unit, problem_key};
use super::{Watcher, now_ms};
use crate::bot::loader::Loader;
use crate::bot::registry::{FileProblem, LastError, Served};
use crate::wire::BotRef;

impl<L: Loader> Watcher<L> {
    /// Deals with what a file's manifest and the look at its component gave.
    pub(super) fn prepared(&mut self, stem: OsString, sight: Sight, prepared: Prepared) {
        let settle = self.options.settle;
        let Some(unit) = self.units.get_mut(&stem) else { return };
        unit.retry_at = None;
        unit.component = Some(sight.component_path.clone());
        unit.sight = Some(sight.clone());
        match prepared {
            Prepared::Moved => {
                unit.ready_at = Instant::now() + settle;
                unit.tried = None;
                self.tried_once(&stem);
            }
            Prepared::Elsewhere { bot_ref } => {
                unit.ready_at = Instant::now() + settle;
                // The place in the order is taken now; if another has it, that is said when the component is stable.
                if let Some(bot) = bot_ref.filter(|bot| self.claims.claim(bot, &stem).is_ok()) {
                    unit.wants = Some(bot);
                    unit.blocked = None;
                    self.update(&stem);
                }
            }
            Prepared::Refused(refusal) => self.refuse(&stem, sight, refusal),
            Prepared::Ready { bot_ref, manifest } => {
                if let Err(other) = self.claims.claim(&bot_ref, &stem) {
                    return self.conflict(&stem, sight, bot_ref, &other);
                }
                unit.wants = Some(bot_ref.clone());
                unit.blocked = None;
                unit.busy = true;
                let generation = unit.generation;
                self.queue.push_back(Job { stem: stem.clone(), generation, sight, bot_ref, manifest });
                self.update(&stem);
            }
        }
    }

    /// A file gives this reference now, and no other.
    pub(super) fn give_up_others(&mut self, stem: &OsStr, bot: &BotRef) {
        let Some(unit) = self.units.get_mut(stem) else { return };
        if unit.wants.as_ref() != Some(bot) {
            unit.wants = None;
            self.update(stem);
        }
    }

    /// Deals with a load that has ended.
    pub(super) fn loaded(&mut self, job: Job, end: LoadEnd<L::Bot>) {
        // Removed meanwhile, or removed and back.
        let Some(unit) = self.units.get_mut(&job.stem).filter(|unit| unit.generation == job.generation) else {
            return;
        };
        unit.busy = false;
        let file = unit.file();
        match end {
            LoadEnd::Moved => {
                unit.ready_at = Instant::now() + self.options.settle;
                unit.tried = None;
            }
            LoadEnd::Failed { message, maybe_unfinished } => {
                let refusal = Refusal { bot_ref: Some(job.bot_ref), message, maybe_unfinished, gone: false };
                self.refuse(&job.stem, job.sight, refusal);
            }
            LoadEnd::Same => {
                let bot = &job.bot_ref;
                if unit.error.take().is_some() {
                    tracing::info!(?bot, ?file, "the bot's file is again the build that is served");
                } else {
                    tracing::debug!(?bot, ?file, "the bot's file was touched and is as it was");
                }
                unit.tried = Some(job.sight);
                self.update(&job.stem);
            }
            LoadEnd::Loaded { bot, hash } => {
                let limits = job.manifest.limits(&self.options.default_limits);
                let since = now_ms();
                let version = hash.get(..12).unwrap_or_default().to_owned();
                let served = Served {
                    bot_ref: job.bot_ref.clone(),
                    bot,
                    hash,
                    manifest: job.manifest,
                    limits,
                    file: file.clone(),
                    since,
                };
                unit.error = None;
                unit.tried = Some(job.sight);
                let bot = &job.bot_ref;
                if unit.serving.replace(Arc::new(served)).is_some() {
                    unit.reloads += 1;
                    tracing::info!(?bot, %version, ?file, "the bot is served in a newer build or with a newer manifest");
                } else {
                    tracing::info!(?bot, %version, ?file, "the bot is served");
                }
                let displaced = self.claims.serve(bot, &job.stem);
                self.update(&job.stem);
                if let Some(other) = displaced {
                    self.displaced(&other, &file);
                }
            }
        }
        self.tried_once(&job.stem);
        let wakes = self.units.get(&job.stem).and_then(Unit::wakes_at);
        self.next_look = wakes.map_or(self.next_look, |at| self.next_look.min(at));
    }

    /// A file cannot be served as it is.
    fn refuse(&mut self, stem: &OsStr, sight: Sight, refusal: Refusal) {
        if let Some(bot) = &refusal.bot_ref
            && let Err(other) = self.claims.claim(bot, stem)
        {
            return self.conflict(stem, sight, bot.clone(), &other);
        }
        let Some(unit) = self.units.get_mut(stem) else { return };
        unit.blocked = None;
        unit.wants = refusal.bot_ref.or_else(|| {
            // Its manifest cannot be read: it is what it was, or what its name says, if nobody else is.
            let was = [unit.wants.take(), unit.serving.as_ref().map(|served| served.bot_ref.clone())];
            let named = stem.to_str().and_then(|stem| BotRef::parse(stem).ok());
            was.into_iter().flatten().chain(named).find(|bot| self.claims.claim(bot, stem).is_ok())
        });
        if refusal.gone && unit.serving.take().is_some() {
            self.claims.end_serving(stem);
            tracing::info!(bot = ?unit.wants, file = ?unit.file(), "the bot's component is gone; it is not served any more");
        }
        let rest = Unit::<L::Bot>::may_grow_for(&sight, self.options.young).filter(|_| refusal.maybe_unfinished);
        let (bot, file, error) = (&unit.wants, unit.file(), &refusal.message);
        let older_serves = unit.serving.is_some();
        if let Some(rest) = rest {
            unit.retry_at = Some(Instant::now() + rest);
            tracing::info!(?bot, ?file, ?error, older_serves, "a file cannot be loaded yet; still being written?");
        } else {
            tracing::warn!(?bot, ?file, ?error, older_serves, "a file cannot be served");
            unit.error = Some(LastError { message: refusal.message, at: now_ms() });
        }
        unit.tried = Some(sight);
        self.update(stem);
        self.tried_once(stem);
    }

    /// Another file has the reference.
    fn conflict(&mut self, stem: &OsStr, sight: Sight, bot: BotRef, other: &OsStr) {
        let holder =
            self.units.get(other).map_or_else(|| with_ending(other, "wasm").display().to_string(), Unit::naming_file);
        let Some(unit) = self.units.get_mut(stem) else { return };
        let file = unit.naming_file();
        let message = format!(
            "{holder} and {file} both give the bot reference {bot}; {holder} has it. Change `ref` in the manifest of \
             one of them, or remove one."
        );
        tracing::warn!(?bot, ?file, ?holder, "two files give one bot reference; the second is not served");
        unit.wants = None;
        unit.blocked = Some(bot);
        unit.error = Some(LastError { message, at: now_ms() });
        unit.tried = Some(sight);
        self.update(stem);
        self.tried_once(stem);
    }

    /// A file's time is up.
    pub(super) fn remove(&mut self, stem: &OsStr) {
        let Some(unit) = self.units.remove(stem) else { return };
        tracing::info!(
            bot = ?unit.published.first(), version = ?unit.serving.as_ref().map(|served| &served.hash), file = ?unit.file(),
            "the bot's file is gone; calls under way go on, new ones are not taken"
        );
        let freed = self.claims.release(stem, None);
        self.claims.end_serving(stem);
        self.publish(stem, &unit.published, None);
        self.wake_blocked(&freed);
        self.tried_once(stem);
    }

    /// Another file is served under the reference that this one had and gives no more.
    fn displaced(&mut self, stem: &OsStr, by: &str) {
        let Some(unit) = self.units.get_mut(stem) else { return };
        let was = unit.serving.take();
        tracing::info!(
            bot = ?was.map(|served| served.bot_ref.clone()), file = ?unit.file(), ?by,
            "the bot's file gives another reference now, and another file serves its old one"
        );
        self.update(stem);
    }

    /// Publishes a file's bot as it stands, and frees the references its files give no more.
    fn update(&mut self, stem: &OsStr) {
        let Some(unit) = self.units.get_mut(stem) else { return };
        let freed = self.claims.release(stem, unit.wants.as_ref());
        let now = unit.refs();
        let mut touched = std::mem::replace(&mut unit.published, now.clone());
        touched.extend(now);
        let shown = unit.serving.is_some() || unit.wants.as_ref().is_some_and(|bot| self.claims.server(bot).is_none());
        let problem = if shown { None } else { unit.problem() };
        self.publish(stem, &touched, problem);
        self.wake_blocked(&freed);
    }

    /// Publishes what there is now under these references, in one step.
    fn publish(&self, stem: &OsStr, touched: &[BotRef], problem: Option<FileProblem>) {
        let unit = |stem: Option<&OsStr>| stem.and_then(|stem| self.units.get(stem));
        let slot = |bot: &BotRef| {
            let served = unit(self.claims.server(bot)).and_then(Unit::serving_slot);
            served.or_else(|| unit(self.claims.claimant(bot)).and_then(Unit::waiting_slot))
        };
        let slots = touched.iter().filter_map(slot).collect();
        self.shared.publish(touched, slots, &problem_key(stem), problem);
    }

    fn wake_blocked(&mut self, freed: &[BotRef]) {
        for unit in self.units.values_mut() {
            if unit.blocked.as_ref().is_some_and(|bot| freed.contains(bot)) {
                unit.blocked = None;
                unit.tried = None;
                self.next_look = Instant::now();
            }
        }
    }

    /// For the first scan, a file has been dealt with.
    fn tried_once(&mut self, stem: &OsStr) {
        if let Some(first) = &mut self.first {
            first.remove(stem);
        }
    }
}
