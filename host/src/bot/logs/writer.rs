//! The thread that writes all bots' logs.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use serde::Serialize;

use super::file::{LogFile, Lost};
use super::{BotState, Bots, Item, Line, LogLevel, LogSource, now_ms};

/// Files kept open.
const MAX_OPEN: usize = 64;
/// After this long without a line all files are closed, so that one that was moved away is made anew.
const IDLE: Duration = Duration::from_secs(2);

pub(super) struct Writer {
    dir: PathBuf,
    max_bytes: u64,
    bots: Arc<Bots>,
    open: HashMap<String, Open>,
    /// Logs whose last write failed: the server's log says so once, not with every line.
    failing: HashSet<String>,
}

/// An open log and whose it is.
struct Open {
    bot: Arc<BotState>,
    file: LogFile,
}

/// A line as it is written.
#[derive(Serialize)]
struct Record<'a> {
    ts: u64,
    level: &'static str,
    source: &'static str,
    run: Option<&'a str>,
    text: &'a str,
}

impl Writer {
    pub(super) fn new(dir: PathBuf, max_bytes: u64, bots: Arc<Bots>) -> Self {
        Self { dir, max_bytes, bots, open: HashMap::new(), failing: HashSet::new() }
    }

    pub(super) fn run(mut self, items: &Receiver<Item>) {
        loop {
            let item = match items.try_recv() {
                Ok(item) => item,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    self.catch_up();
                    match items.recv_timeout(IDLE) {
                        Ok(item) => item,
                        Err(RecvTimeoutError::Disconnected) => break,
                        Err(RecvTimeoutError::Timeout) => {
                            self.open.clear();
                            continue;
                        }
                    }
                }
            };
            match item {
                Item::Line(line) => self.line(&line),
                Item::Flush(done) => {
                    self.catch_up();
                    let _ = done.send(());
                }
                Item::Close => break,
            }
        }
        self.catch_up();
    }

    fn line(&mut self, line: &Line) {
        self.report_losses(&line.bot, line.lost_before);
        let record = Record {
            ts: line.ts,
            level: line.level.as_str(),
            source: line.source.as_str(),
            run: line.run.as_deref(),
            text: &line.text,
        };
        self.write(&line.bot, &record, 1);
        self.bots.taken(&line.bot, line.text.len());
    }

    /// There is nothing to do: says what was dropped and writes what is gathered.
    fn catch_up(&mut self) {
        for bot in self.bots.with_losses() {
            let dropped = bot.dropped.swap(0, Ordering::Relaxed);
            self.report_losses(&bot, dropped);
        }
        self.flush_all();
    }

    fn flush_all(&mut self) {
        let names: Vec<String> = self.open.keys().cloned().collect();
        for name in names {
            self.flush(&name, None);
        }
    }

    fn report_losses(&mut self, bot: &Arc<BotState>, dropped: u64) {
        if dropped > 0 {
            let text = format!("{dropped} lines are missing here: they could not be written in time");
            let (level, source) = (LogLevel::Warn.as_str(), LogSource::Host.as_str());
            self.write(bot, &Record { ts: now_ms(), level, source, run: None, text: &text }, dropped);
        }
    }

    /// Writes a record that stands for `lines` lines.
    fn write(&mut self, bot: &Arc<BotState>, record: &Record<'_>, lines: u64) {
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&bot.file_name) {
            self.flush_all();
            self.open.clear();
        }
        let added = serde_json::to_vec(record).map_err(io::Error::from).and_then(|mut json| {
            json.push(b'\n');
            let open = match self.open.entry(bot.file_name.clone()) {
                Entry::Occupied(open) => open.into_mut(),
                Entry::Vacant(place) => {
                    let file = LogFile::open(self.dir.join(&bot.file_name))?;
                    place.insert(Open { bot: Arc::clone(bot), file })
                }
            };
            Ok((open.file.add(&json, lines, self.max_bytes).err(), open.file.is_full()))
        });
        match added {
            Ok((None, false)) => {}
            Ok((lost, _)) => self.flush(&bot.file_name, lost),
            Err(error) => self.failed(bot, &Lost { lines, error }),
        }
    }

    /// Writes what is gathered for a file. After an error, or after the one handed in, the file is opened anew.
    fn flush(&mut self, name: &str, earlier: Option<Lost>) {
        let Some(mut open) = self.open.remove(name) else { return };
        let flushed = open.file.flush();
        if let Some(lost) = &earlier {
            self.failed(&open.bot, lost);
        }
        match flushed {
            Err(lost) => self.failed(&open.bot, &lost),
            Ok(wrote) if earlier.is_none() => {
                if wrote {
                    self.failing.remove(name);
                }
                self.open.insert(name.to_owned(), open);
            }
            Ok(_) => {}
        }
    }

    fn failed(&mut self, bot: &BotState, lost: &Lost) {
        self.bots.lost(bot, lost.lines);
        if self.failing.insert(bot.file_name.clone()) {
            let file = self.dir.join(&bot.file_name);
            tracing::warn!(?file, error = %lost.error, "a bot's log cannot be written; its lines are lost until it can");
        }
    }
}
