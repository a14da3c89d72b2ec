//! Each bot's own log: what it says by `logging`, on stderr and stdout, and what the host has to say about it.
//!
//! A guest's text goes here and never into the server's own log. Taking a line never blocks: lines that the disk is too
//! slow for are dropped, counted, and the count is written once there is room.

mod file;
mod writer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use self::writer::Writer;
use super::log::{BotLog, LogLevel, LogLine, LogSource};
use crate::wire::BotRef;

/// Where a log is rotated unless told otherwise, in bytes.
pub const DEFAULT_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Lines that wait for the writer, all bots together.
const MAX_LINES: usize = 8192;
/// Bytes of text that wait for the writer, all bots together.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Lines of one bot that wait, so that a noisy bot does not cost the others their lines.
const MAX_BOT_LINES: usize = 2048;
/// Bytes of one bot that wait.
const MAX_BOT_BYTES: usize = 8 * 1024 * 1024;

/// All bots' logs, and the thread that writes them. Dropping it writes what waits and ends the thread.
pub struct BotLogs {
    sender: SyncSender<Item>,
    bots: Arc<Bots>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One bot's log. Cheap to clone.
#[derive(Clone)]
pub struct BotLogHandle {
    sender: SyncSender<Item>,
    bots: Arc<Bots>,
    state: Arc<BotState>,
}

/// The bots that have been asked for.
#[derive(Default)]
struct Bots {
    known: Mutex<HashMap<BotRef, Arc<BotState>>>,
    /// Bytes that wait, of all bots.
    bytes: AtomicUsize,
    /// Whether a bot has lines dropped that are not in its log yet.
    dropped: AtomicBool,
}

/// What the writer and a bot's handles share.
struct BotState {
    file_name: String,
    lines: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// What the writer is sent.
enum Item {
    Line(Line),
    /// Write what came before, then say so.
    Flush(Sender<()>),
    Close,
}

/// A line on its way.
struct Line {
    bot: Arc<BotState>,
    ts: u64,
    level: LogLevel,
    source: LogSource,
    run: Option<Box<str>>,
    text: String,
    /// Lines of this bot that were dropped just before it.
    lost_before: u64,
}

impl BotLogs {
    /// Opens the folder of the logs, made with mode 0700 where it is missing. A log is rotated at `max_bytes`.
    ///
    /// # Errors
    /// If the folder cannot be made or the thread cannot be started.
    pub fn open(dir: &Path, max_bytes: u64) -> io::Result<Self> {
        let (logs, receiver) = Self::prepare(dir)?;
        logs.start(receiver, dir, max_bytes)?;
        Ok(logs)
    }

    fn prepare(dir: &Path) -> io::Result<(Self, Receiver<Item>)> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let (sender, receiver) = sync_channel(MAX_LINES);
        Ok((Self { sender, bots: Arc::default(), thread: Mutex::default() }, receiver))
    }

    fn start(&self, receiver: Receiver<Item>, dir: &Path, max_bytes: u64) -> io::Result<()> {
        let writer = Writer::new(dir.to_owned(), max_bytes, Arc::clone(&self.bots));
        let thread = std::thread::Builder::new().name("bot-logs".into()).spawn(move || writer.run(&receiver))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// The log of a bot.
    #[must_use]
    pub fn for_bot(&self, bot: &BotRef) -> BotLogHandle {
        let mut known = self.bots.known.lock().unwrap_or_else(PoisonError::into_inner);
        let state = known.entry(bot.clone()).or_insert_with(|| Arc::new(BotState::new(file::file_name(bot))));
        BotLogHandle { sender: self.sender.clone(), bots: Arc::clone(&self.bots), state: Arc::clone(state) }
    }

    /// Waits until all lines taken so far are in their files. Blocks.
    pub fn flush(&self) {
        let (sender, receiver) = channel();
        if self.sender.send(Item::Flush(sender)).is_ok() {
            // An error means that the writer has ended, and it writes everything before it does.
            let _ = receiver.recv();
        }
    }

    /// Writes what waits and ends; lines that come later are dropped. Blocks.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = self.sender.send(Item::Close);
            let _ = thread.join();
        }
    }
}

impl Drop for BotLogs {
    fn drop(&mut self) {
        self.close();
    }
}

impl BotLogHandle {
    /// Takes a line; `run_id` is the run it belongs to. Never blocks.
    pub fn line(&self, level: LogLevel, source: LogSource, run_id: Option<&str>, text: impl Into<String>) {
        let text = text.into();
        let bytes = text.len();
        // Counted first and given back if there is no room: two at once may both be refused, none slips through.
        let lines_waiting = self.state.lines.fetch_add(1, Ordering::Relaxed);
        let bot_bytes = self.state.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let all_bytes = self.bots.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if lines_waiting >= MAX_BOT_LINES || bot_bytes > MAX_BOT_BYTES || all_bytes > MAX_BYTES {
            self.bots.taken(&self.state, bytes);
            self.bots.lost(&self.state, 1);
            return;
        }
        let lost_before = self.state.dropped.swap(0, Ordering::Relaxed);
        let bot = Arc::clone(&self.state);
        let run = run_id.map(Into::into);
        let line = Line { bot, ts: now_ms(), level, source, run, text, lost_before };
        if self.sender.try_send(Item::Line(line)).is_err() {
            self.bots.taken(&self.state, bytes);
            self.bots.lost(&self.state, lost_before + 1);
        }
    }
}

impl Bots {
    /// A line of `bytes` does not wait any more.
    fn taken(&self, bot: &BotState, bytes: usize) {
        bot.lines.fetch_sub(1, Ordering::Relaxed);
        bot.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Lines of a bot are not in its log and its log is to say so.
    fn lost(&self, bot: &BotState, lines: u64) {
        bot.dropped.fetch_add(lines, Ordering::Relaxed);
        self.dropped.store(true, Ordering::Release);
    }

    /// The bots whose logs lack lines.
    fn with_losses(&self) -> Vec<Arc<BotState>> {
        if !self.dropped.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter(|bot| bot.dropped.load(Ordering::Relaxed) > 0).cloned().collect()
    }
}

impl BotState {
    fn new(file_name: String) -> Self {
        Self { file_name, lines: AtomicUsize::new(0), bytes: AtomicUsize::new(0), dropped: AtomicU64::new(0) }
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

impl BotLog for BotLogHandle {
    fn line(&self, line: LogLine<'_>) {
        Self::line(self, line.level, line.source, Some(line.request), line.text);
    }
}

#[cfg(test)]
mod tests;
