//! `[limits]` of a manifest: each within a range, each in place of the host's own.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::text::Source;
use super::{Limits, ManifestError};

const KIB: usize = 1024;
const MIB: usize = 1024 * 1024;

/// What a manifest sets; `None` leaves the host's setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitOverrides {
    /// `memory_mb`, in bytes.
    pub memory_bytes: Option<usize>,
    /// `table_elements`.
    pub table_elements: Option<usize>,
    /// `cpu_seconds`.
    pub cpu_time: Option<Duration>,
    /// `inject_seconds`.
    pub inject_time: Option<Duration>,
    /// `output_mb`, in bytes.
    pub output_bytes: Option<usize>,
    /// `state_kb`, in bytes.
    pub state_bytes: Option<usize>,
    /// `state_keys`.
    pub state_keys: Option<usize>,
    /// `host_data_mb`, in bytes.
    pub host_data_bytes: Option<usize>,
    /// `log_kb`, in bytes.
    pub log_bytes: Option<usize>,
    /// `max_concurrent` of `[runs]`.
    pub max_concurrent: Option<usize>,
}

impl LimitOverrides {
    /// These limits, and the defaults where there is none.
    #[must_use]
    pub fn over(&self, defaults: &Limits) -> Limits {
        Limits {
            memory_bytes: self.memory_bytes.unwrap_or(defaults.memory_bytes),
            table_elements: self.table_elements.unwrap_or(defaults.table_elements),
            cpu_time: self.cpu_time.unwrap_or(defaults.cpu_time),
            inject_time: self.inject_time.unwrap_or(defaults.inject_time),
            output_bytes: self.output_bytes.unwrap_or(defaults.output_bytes),
            state_bytes: self.state_bytes.unwrap_or(defaults.state_bytes),
            state_keys: self.state_keys.unwrap_or(defaults.state_keys),
            host_data_bytes: self.host_data_bytes.unwrap_or(defaults.host_data_bytes),
            log_bytes: self.log_bytes.unwrap_or(defaults.log_bytes),
            max_concurrent: self.max_concurrent.unwrap_or(defaults.max_concurrent),
        }
    }
}

/// `[limits]` as it is written. Signed, so that a negative number gets the same sentence as one too large.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitsTable {
    memory_mb: Option<Spanned<i64>>,
    table_elements: Option<Spanned<i64>>,
    cpu_seconds: Option<Spanned<i64>>,
    inject_seconds: Option<Spanned<i64>>,
    output_mb: Option<Spanned<i64>>,
    state_kb: Option<Spanned<i64>>,
    state_keys: Option<Spanned<i64>>,
    host_data_mb: Option<Spanned<i64>>,
    log_kb: Option<Spanned<i64>>,
}

impl LimitsTable {
    pub(super) fn check(
        &self,
        max_concurrent: Option<&Spanned<i64>>,
        source: &Source<'_>,
    ) -> Result<LimitOverrides, ManifestError> {
        let range = |key: &str, value: Option<&Spanned<i64>>, min: usize, max: usize| {
            let Some(value) = value else { return Ok(None) };
            match usize::try_from(*value.get_ref()) {
                Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
                _ => Err(source.error(
                    value.span(),
                    format!("`{key}` is {}, but it must be between {min} and {max}", value.get_ref()),
                )),
            }
        };
        let seconds = |number: Option<usize>| number.map(|number| Duration::from_secs(number as u64));
        let times = |number: Option<usize>, unit: usize| number.map(|number| number.saturating_mul(unit));
        Ok(LimitOverrides {
            // 4 GiB is all that a 32-bit memory can have.
            memory_bytes: times(range("limits.memory_mb", self.memory_mb.as_ref(), 1, 4096)?, MIB),
            table_elements: range("limits.table_elements", self.table_elements.as_ref(), 1, 10_000_000)?,
            cpu_time: seconds(range("limits.cpu_seconds", self.cpu_seconds.as_ref(), 1, 86_400)?),
            inject_time: seconds(range("limits.inject_seconds", self.inject_seconds.as_ref(), 1, 3_600)?),
            output_bytes: times(range("limits.output_mb", self.output_mb.as_ref(), 1, 1024)?, MIB),
            state_bytes: times(range("limits.state_kb", self.state_kb.as_ref(), 0, 1024 * 1024)?, KIB),
            state_keys: range("limits.state_keys", self.state_keys.as_ref(), 0, 1_000_000)?,
            host_data_bytes: times(range("limits.host_data_mb", self.host_data_mb.as_ref(), 1, 1024)?, MIB),
            log_bytes: times(range("limits.log_kb", self.log_kb.as_ref(), 0, 1024 * 1024)?, KIB),
            max_concurrent: range("runs.max_concurrent", max_concurrent, 1, 100_000)?,
        })
    }
}
