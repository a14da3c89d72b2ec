//! The layout of the tree: one byte for the kind of record, then its key.
//!
//! Numbers are big-endian, so that byte order is their order. No key is longer than about 220 bytes: the parts that come from
//! outside are kept as they are when short, and as their SHA-256 when long (their record has the whole).

use sha2::{Digest, Sha256};

use crate::store::EntryKind;
use crate::wire::SessionKey;

/// The format's version.
pub(super) const FORMAT: &[u8] = b"f";

/// `a` cache key → the digest of a compiled component.
const ARTIFACT: u8 = b'a';
/// `b` run → the bodies of its callback.
const BODIES: u8 = b'b';
/// `c` id → the claim of an inject or abort. The claim of a send is its run.
const CLAIM: u8 = b'c';
/// `d` time, time put in, run → the run; the order in which callbacks are due.
pub(super) const DUE: u8 = b'd';
/// `e` time, id → what was claimed or ended then; the order of expiry.
pub(super) const EXPIRY: u8 = b'e';
/// `h` session → its head.
const HEAD: u8 = b'h';
/// `k` place, session → an owed `inject` hook.
pub(super) const HOOK: u8 = b'k';
/// `n` order → a RUNNING run.
pub(super) const RUNNING: u8 = b'n';
/// `o` run → its callback, without the bodies.
const OUTBOX: u8 = b'o';
/// `p` order → a PENDING run.
pub(super) const PENDING: u8 = b'p';
/// `r` run → its record.
const RUN: u8 = b'r';
/// `t` session, place, kind → a message.
const ENTRY: u8 = b't';
/// `v` session, name → name and length of a state value.
const STATE_NAME: u8 = b'v';
/// `w` session, name → a state value.
const STATE_VALUE: u8 = b'w';
/// `x` run → the run; its callback was given up.
pub(super) const DEAD: u8 = b'x';
/// `z` key, number → a piece of the record at that key.
const CHUNK: u8 = b'z';

/// The longest text from outside that stands in a key as it is, in bytes.
const LONGEST: usize = 180;

/// A record's kind in words and its key, for messages.
pub(super) fn describe(key: &[u8]) -> String {
    let kind = match key.first() {
        Some(&ARTIFACT) => "digest of a compiled component",
        Some(&BODIES | &OUTBOX | &DUE | &DEAD) => "callback",
        Some(&CLAIM) => "claim of an id",
        Some(&EXPIRY) => "expiry mark",
        Some(&HEAD) => "session",
        Some(&HOOK) => "owed hook",
        Some(&RUN | &RUNNING | &PENDING) => "run",
        Some(&ENTRY) => "message",
        Some(&STATE_NAME | &STATE_VALUE) => "state value",
        Some(&CHUNK) => "piece of a record",
        _ => "record",
    };
    format!("{kind} at key \"{}\"", key.escape_ascii())
}

fn with_id(kind: u8, id: &str) -> Vec<u8> {
    let mut key = vec![kind];
    push_text(&mut key, id);
    key
}

/// Always the last part of a key, so it needs no length.
fn push_text(key: &mut Vec<u8>, text: &str) {
    if text.len() <= LONGEST {
        key.push(0);
        key.extend_from_slice(text.as_bytes());
    } else {
        key.push(1);
        key.extend_from_slice(&Sha256::digest(text.as_bytes()));
    }
}

/// Lengths first, so that no session is a prefix of another. A hashed one begins with a length that no bot has.
fn push_session(key: &mut Vec<u8>, session: &SessionKey) {
    let (bot, name) = (session.bot.as_str().as_bytes(), session.session.as_bytes());
    match (u16::try_from(bot.len()), u16::try_from(name.len())) {
        (Ok(bot_len), Ok(name_len)) if bot.len() + name.len() <= LONGEST => {
            key.extend_from_slice(&bot_len.to_be_bytes());
            key.extend_from_slice(bot);
            key.extend_from_slice(&name_len.to_be_bytes());
            key.extend_from_slice(name);
        }
        _ => {
            // A bot's name has no NUL, so the two cannot be cut another way.
            let digest = Sha256::new().chain_update(bot).chain_update([0]).chain_update(name).finalize();
            key.extend_from_slice(&u16::MAX.to_be_bytes());
            key.extend_from_slice(&digest);
        }
    }
}

pub(super) fn artifact(cache_key: &str) -> Vec<u8> {
    with_id(ARTIFACT, cache_key)
}

pub(super) fn run(id: &str) -> Vec<u8> {
    with_id(RUN, id)
}

pub(super) fn claim(id: &str) -> Vec<u8> {
    with_id(CLAIM, id)
}

pub(super) fn outbox(run_id: &str) -> Vec<u8> {
    with_id(OUTBOX, run_id)
}

pub(super) fn bodies(run_id: &str) -> Vec<u8> {
    with_id(BODIES, run_id)
}

pub(super) fn dead(run_id: &str) -> Vec<u8> {
    with_id(DEAD, run_id)
}

pub(super) fn pending(order: u64) -> Vec<u8> {
    with_number(PENDING, order)
}

pub(super) fn running(order: u64) -> Vec<u8> {
    with_number(RUNNING, order)
}

fn with_number(kind: u8, number: u64) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number after the kind: the order, time or place that a key begins with.
pub(super) fn number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.get(1..)?.first_chunk()?))
}

pub(super) fn due(at: u64, created: u64, run_id: &str) -> Vec<u8> {
    let mut key = with_number(DUE, at);
    key.extend_from_slice(&created.to_be_bytes());
    push_text(&mut key, run_id);
    key
}

pub(super) fn expiry(at: u64, id: &str) -> Vec<u8> {
    let mut key = with_number(EXPIRY, at);
    push_text(&mut key, id);
    key
}

pub(super) fn head(session: &SessionKey) -> Vec<u8> {
    let mut key = vec![HEAD];
    push_session(&mut key, session);
    key
}

pub(super) fn hook(session: &SessionKey, at: u64) -> Vec<u8> {
    let mut key = with_number(HOOK, at);
    push_session(&mut key, session);
    key
}

/// The kind is in the key so that a reader can pass over messages without loading them.
pub(super) fn entry(session: &SessionKey, at: u64, kind: EntryKind) -> Vec<u8> {
    let mut key = entry_from(session, at);
    key.push(match kind {
        EntryKind::Sent => b's',
        EntryKind::Injected => b'i',
        EntryKind::Reply => b'r',
    });
    key
}

/// Before all messages at this place and beyond, after all before it.
pub(super) fn entry_from(session: &SessionKey, at: u64) -> Vec<u8> {
    let mut key = vec![ENTRY];
    push_session(&mut key, session);
    key.extend_from_slice(&at.to_be_bytes());
    key
}

/// The place and kind at the end of a message's key.
pub(super) fn entry_parts(key: &[u8]) -> Option<(u64, EntryKind)> {
    let (kind, rest) = key.split_last()?;
    let at = u64::from_be_bytes(*rest.last_chunk()?);
    let kind = match kind {
        b's' => EntryKind::Sent,
        b'i' => EntryKind::Injected,
        b'r' => EntryKind::Reply,
        _ => return None,
    };
    Some((at, kind))
}

pub(super) fn state_name(session: &SessionKey, name: &str) -> Vec<u8> {
    let mut key = state_names(session);
    push_text(&mut key, name);
    key
}

/// All state names of a session begin with this.
pub(super) fn state_names(session: &SessionKey) -> Vec<u8> {
    let mut key = vec![STATE_NAME];
    push_session(&mut key, session);
    key
}

pub(super) fn state_value(session: &SessionKey, name: &str) -> Vec<u8> {
    let mut key = vec![STATE_VALUE];
    push_session(&mut key, session);
    push_text(&mut key, name);
    key
}

pub(super) fn chunk(record: &[u8], number: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(record.len() + 5);
    key.push(CHUNK);
    key.extend_from_slice(record);
    key.extend_from_slice(&number.to_be_bytes());
    key
}
