//! What the watcher knows of one `NAME.wasm`, `NAME.toml` or both.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::scan::{Sight, with_ending};
use crate::bot::registry::{BotState, BotStatus, FileProblem, LastError, Served, Slot};
use crate::wire::BotRef;

pub(super) struct Unit<B> {
    /// Tells this unit from an earlier one of the same name.
    pub(super) generation: u64,
    pub(super) stem: OsString,
    /// The files as last seen; `None` while they are gone.
    pub(super) sight: Option<Sight>,
    /// When they count as stable.
    pub(super) ready_at: Instant,
    /// The files as they were tried last.
    pub(super) tried: Option<Sight>,
    /// When files that may have been unfinished are tried again.
    pub(super) retry_at: Option<Instant>,
    /// Whether a load is queued or under way.
    pub(super) busy: bool,
    /// The component that the manifest names.
    pub(super) component: Option<PathBuf>,
    /// The reference that the files as they are now give, if they have the claim to it. What is served may still be
    /// under an older one.
    pub(super) wants: Option<BotRef>,
    /// The reference that the files as they are now give and that another file has.
    pub(super) blocked: Option<BotRef>,
    pub(super) serving: Option<Arc<Served<B>>>,
    pub(super) error: Option<LastError>,
    pub(super) reloads: u64,
    /// Where it is published.
    pub(super) published: Vec<BotRef>,
}

impl<B> Unit<B> {
    pub(super) fn new(generation: u64, stem: OsString, ready_at: Instant) -> Self {
        Self {
            generation,
            stem,
            sight: None,
            ready_at,
            tried: None,
            retry_at: None,
            busy: false,
            component: None,
            wants: None,
            blocked: None,
            serving: None,
            error: None,
            reloads: 0,
            published: Vec::new(),
        }
    }

    /// Takes in what a look found. `true` if it is news.
    pub(super) fn observe(&mut self, sight: Option<Sight>, ready_at: Instant) -> bool {
        let news = self.sight != sight;
        if news {
            self.sight = sight;
            self.ready_at = ready_at;
            self.retry_at = None;
        }
        news
    }

    /// Whether its files are there, stable and not tried as they are (or to be tried again).
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let untried = self.sight != self.tried;
        let again = self.retry_at.is_some_and(|at| at <= now);
        !self.busy && self.sight.is_some() && self.ready_at <= now && (untried || again)
    }

    /// Whether its files have been gone long enough.
    pub(super) fn is_gone(&self, now: Instant) -> bool {
        self.sight.is_none() && self.ready_at <= now
    }

    /// When it wants to be looked at next.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        let unsettled = !self.busy && (self.sight.is_none() || self.sight != self.tried);
        [unsettled.then_some(self.ready_at), self.retry_at].into_iter().flatten().min()
    }

    /// For how long its files may still be being written: the rest of `young` since the newest was changed.
    pub(super) fn may_grow_for(sight: &Sight, young: Duration) -> Option<Duration> {
        let now = SystemTime::now();
        let age = sight.stamps().map(|stamp| stamp.age(now)).min()?;
        young.checked_sub(age).filter(|rest| !rest.is_zero())
    }

    /// The file that gives it: the `.wasm` of its name, or the `.toml` where there is no such `.wasm`.
    pub(super) fn file(&self) -> String {
        let sight = self.sight.as_ref().or(self.tried.as_ref());
        let own = with_ending(&self.stem, "wasm");
        let by_manifest =
            sight.is_some_and(|sight| sight.component.is_none() || sight.component_path.as_os_str() != own);
        if by_manifest { with_ending(&self.stem, "toml").display().to_string() } else { own.display().to_string() }
    }

    /// The file that gives its reference.
    pub(super) fn naming_file(&self) -> String {
        let manifest = self.sight.as_ref().is_some_and(|sight| sight.manifest.is_some());
        with_ending(&self.stem, if manifest { "toml" } else { "wasm" }).display().to_string()
    }

    /// The references it has to do with: the one it serves and the one its files give.
    pub(super) fn refs(&self) -> Vec<BotRef> {
        let served = self.serving.as_ref().map(|served| served.bot_ref.clone());
        let wanted = self.wants.clone().filter(|bot| Some(bot) != served.as_ref());
        served.into_iter().chain(wanted).collect()
    }

    /// What is published under the reference that it serves.
    pub(super) fn serving_slot(&self) -> Option<Slot<B>> {
        let served = self.serving.as_ref()?;
        Some(Slot {
            serving: Some(Arc::clone(served)),
            status: BotStatus {
                bot_ref: served.bot_ref.clone(),
                file: self.file(),
                state: BotState::Serving,
                version: Some(served.hash.clone()),
                loaded_at: Some(served.since),
                last_error: self.error.clone(),
                reloads: self.reloads,
                newer_refused: self.error.is_some(),
            },
        })
    }

    /// What is published under the reference that its files give while nothing serves it.
    pub(super) fn waiting_slot(&self) -> Option<Slot<B>> {
        Some(Slot {
            serving: None,
            status: BotStatus {
                bot_ref: self.wants.clone()?,
                file: self.file(),
                state: if self.error.is_some() { BotState::Broken } else { BotState::Loading },
                version: None,
                loaded_at: None,
                last_error: self.error.clone(),
                reloads: 0,
                newer_refused: false,
            },
        })
    }

    /// Its error as a problem of its file.
    pub(super) fn problem(&self) -> Option<FileProblem> {
        let error = self.error.as_ref()?;
        Some(FileProblem { file: self.file(), message: error.message.clone(), at: error.at })
    }
}

/// `NAME`, for a map of problems: names that differ only in bytes that are no UTF-8 share one.
pub(super) fn problem_key(stem: &OsStr) -> String {
    stem.display().to_string()
}
