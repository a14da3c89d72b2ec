//! The simulated server against small scripted Providers: every violation is found, by name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod callbacks;
mod faults;
mod frames;
mod own;
mod provider;
mod requests;
mod streams;

use super::{Bcs, BcsOptions, ViolationKind};

/// The kinds that have been noted, sorted and each once.
fn kinds(bcs: &Bcs) -> Vec<ViolationKind> {
    let mut kinds: Vec<_> = bcs.violations().iter().map(|violation| violation.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Short bounds, so that what waits for them in vain is soon over.
fn options() -> BcsOptions {
    let ms = std::time::Duration::from_millis;
    BcsOptions { linger: ms(1000), ack_grace: ms(60), deadline_grace: ms(300), ..BcsOptions::default() }
}
