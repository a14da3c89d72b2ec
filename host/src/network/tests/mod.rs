#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod fake;
mod server;
mod worker;

use std::collections::BTreeMap;
use std::time::Duration;

use super::bcs::Times;
use super::*;
use crate::clock::now_ms;
use crate::store::OutboxEntry;
use crate::wire::callback::CallbackBody;
use crate::wire::{BotRef, Channel, Secret};

/// A callback of `bodies` bodies that is due.
pub(super) fn entry(bot: &str, run_id: &str, bodies: usize) -> OutboxEntry {
    let now = now_ms();
    OutboxEntry {
        run_id: run_id.into(),
        bot: BotRef::parse(bot).unwrap(),
        channel: Channel::CallbackV2,
        bodies: (0..bodies)
            .map(|i| CallbackBody { event_id: format!("{run_id}-event-{i}"), json: format!("{{\"n\":{i}}}") })
            .collect(),
        done: 0,
        created_at: now,
        give_up_at: now + 3_600_000,
        attempts: 0,
        due_at: now,
        last_error: None,
        dead: false,
    }
}

fn token(token: &str) -> Credentials {
    Credentials::StaticBearer { default: Some(Secret::new(token)), bots: BTreeMap::new() }
}

fn client(url: &str) -> BcsClient {
    let times =
        Times { connect: Duration::from_secs(5), total: Duration::from_secs(5), body: Duration::from_millis(200) };
    BcsClient::with_times(Some(url), "prov-1", token("the-token"), times).unwrap()
}
