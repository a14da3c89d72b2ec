//! The system's reports of changes in the folder. They only make a look come sooner: what changed, a look finds out.

use std::path::Path;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

pub(super) struct Events {
    enabled: bool,
    poke: Arc<Notify>,
    watching: Option<Watching>,
    warned: bool,
}

struct Watching {
    /// Device and inode of the folder: after a rename or a turned link its path may be another folder.
    folder: (u64, u64),
    _watcher: RecommendedWatcher,
}

impl Events {
    pub(super) fn new(enabled: bool, poke: Arc<Notify>) -> Self {
        Self { enabled, poke, watching: None, warned: false }
    }

    /// Watches the folder that is at `dir` now.
    pub(super) fn follow(&mut self, dir: &Path, folder: (u64, u64)) {
        if !self.enabled || self.watching.as_ref().is_some_and(|watching| watching.folder == folder) {
            return;
        }
        self.watching = None;
        let poke = Arc::clone(&self.poke);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading is no change.
            let change = match event.map(|event| event.kind) {
                Ok(EventKind::Access(kind)) => kind == AccessKind::Close(AccessMode::Write),
                _ => true,
            };
            if change {
                poke.notify_one();
            }
        })
        .and_then(|mut watcher| {
            watcher.watch(dir, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match watcher {
            Ok(watcher) => {
                self.watching = Some(Watching { folder, _watcher: watcher });
                self.warned = false;
            }
            Err(error) if !self.warned => {
                self.warned = true;
                tracing::warn!(?dir, %error, "the system does not report changes in the plugins folder; they are found by looking");
            }
            Err(_) => {}
        }
    }
}
