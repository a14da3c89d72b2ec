//! How many calls there are at once, in all and of one bot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wire::BotRef;

/// The bounds of calls at once. First come, first served.
pub(super) struct Slots {
    all: Arc<Semaphore>,
    bots: Mutex<HashMap<BotRef, (usize, Arc<Semaphore>)>>,
}

/// A place among the calls, given back on drop.
pub(super) struct Slot {
    _bot: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Slots {
    pub(super) fn new(all: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), bots: Mutex::default() }
    }

    /// Waits for a place for a call of `bot`, which may have `max` at once.
    ///
    /// The bot's own bound comes first, so that a bot at its bound holds none of the common places.
    pub(super) async fn take(&self, bot: &BotRef, max: usize) -> Option<Slot> {
        let of_bot = {
            let mut bots = self.bots.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = bots.entry(bot.clone()).or_insert_with(|| (max, Arc::new(Semaphore::new(max))));
            if entry.0 != max {
                // The manifest changed: calls under way keep their place under the old bound.
                *entry = (max, Arc::new(Semaphore::new(max)));
            }
            entry.1.clone()
        };
        let of_bot = of_bot.acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Slot { _bot: of_bot, _all: all })
    }
}
