//! `avernest:bot/logging`.

use std::sync::PoisonError;

use crate::bot::bindings::avernest::bot::logging::{Host, Level};
use crate::bot::guest::GuestState;
use crate::bot::log::{LogLevel, LogSource};

impl Host for GuestState {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            Level::Trace => LogLevel::Trace,
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).line(level, LogSource::Log, &message);
        Ok(())
    }
}
