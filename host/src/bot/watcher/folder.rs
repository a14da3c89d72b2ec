//! The plugins folder itself: made where it is missing, reported when it cannot be read.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;

use super::{Watcher, now_ms};
use crate::bot::loader::Loader;
use crate::bot::registry::FileProblem;

impl<L: Loader> Watcher<L> {
    /// Makes the folder where it is missing.
    pub(super) async fn make_folder(&self) {
        let dir = self.options.dir.clone();
        let made = self.blocking(move || {
            if dir.exists() {
                return Ok(false);
            }
            DirBuilder::new().recursive(true).mode(0o755).create(&dir).map(|()| true)
        });
        let dir = &self.options.dir;
        match made.await {
            Ok(true) => tracing::info!(?dir, "the plugins folder was missing and has been made; put bots into it"),
            Ok(false) => {}
            Err(error) => tracing::error!(?dir, %error, "the plugins folder is missing and cannot be made"),
        }
    }

    /// It cannot be read: said once.
    pub(super) fn folder_fails(&mut self, error: &io::Error) {
        let message = format!(
            "The plugins folder {} cannot be read: {error}. The bots that were loaded go on serving.",
            self.options.dir.display()
        );
        if self.shared.folder_problem().is_none_or(|problem| problem.message != message) {
            tracing::error!(dir = ?self.options.dir, %error, "the plugins folder cannot be read; the bots that were loaded go on serving");
            let file = self.options.dir.display().to_string();
            self.shared.publish_folder(Some(FileProblem { file, message, at: now_ms() }));
        }
        // There is nothing to wait for; what the folder holds is tried when it can be read.
        self.shared.first_scan_done();
    }

    /// It can be read.
    pub(super) fn folder_answers(&self) {
        if self.shared.folder_problem().is_some() {
            tracing::info!(dir = ?self.options.dir, "the plugins folder can be read again");
            self.shared.publish_folder(None);
        }
    }
}
