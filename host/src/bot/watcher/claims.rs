//! Which file has which reference.
//!
//! Claimed is what the files as they are now give, and the first to claim a reference has it. Served is what was
//! loaded, which lags behind: a file whose new reference cannot be served yet (or not at all) goes on serving under
//! its old one, until a file that has the claim to that is served in its place. Were the old one a claim, two files
//! that change places would wait for each other for ever.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use crate::wire::BotRef;

#[derive(Default)]
pub(super) struct Claims {
    claimed: HashMap<BotRef, OsString>,
    served: HashMap<BotRef, OsString>,
}

impl Claims {
    /// Claims a reference for a file; `Err` is the other file that has it.
    pub(super) fn claim(&mut self, bot: &BotRef, stem: &OsStr) -> Result<(), OsString> {
        match self.claimed.get(bot) {
            Some(owner) if owner != stem => Err(owner.clone()),
            Some(_) => Ok(()),
            None => {
                self.claimed.insert(bot.clone(), stem.to_owned());
                Ok(())
            }
        }
    }

    /// Frees a file's claims but the one it `keeps`; gives those freed.
    pub(super) fn release(&mut self, stem: &OsStr, keeps: Option<&BotRef>) -> Vec<BotRef> {
        let freed = self.claimed.extract_if(|bot, owner| owner == stem && keeps != Some(bot));
        freed.map(|(bot, _)| bot).collect()
    }

    /// A file serves this reference now and no other; gives the file whose place it takes.
    pub(super) fn serve(&mut self, bot: &BotRef, stem: &OsStr) -> Option<OsString> {
        self.end_serving(stem);
        self.served.insert(bot.clone(), stem.to_owned())
    }

    /// A file serves nothing.
    pub(super) fn end_serving(&mut self, stem: &OsStr) {
        self.served.retain(|_, owner| owner != stem);
    }

    /// The file that has the claim to a reference.
    pub(super) fn claimant(&self, bot: &BotRef) -> Option<&OsStr> {
        self.claimed.get(bot).map(OsString::as_os_str)
    }

    /// The file that serves a reference.
    pub(super) fn server(&self, bot: &BotRef) -> Option<&OsStr> {
        self.served.get(bot).map(OsString::as_os_str)
    }
}
