//! How many connections the system allows this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything that is no connection: the store, the bots' logs, callbacks, compile processes.
const OTHERS: usize = 256;

/// As many connections as are wanted, or as many as the system's limit on open files allows; the limit is raised as
/// far as it may be.
pub(super) fn connections(wanted: usize) -> usize {
    let allowed = raised(getrlimit(Resource::Nofile));
    let most = allowed.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let taken = bounded(wanted, most);
    if taken < wanted {
        tracing::warn!(
            wanted,
            taken,
            "the limit on open files allows fewer connections than `server.max_connections`: raise it \
             (`ulimit -n`, or LimitNOFILE= in a systemd unit)"
        );
    }
    taken
}

/// Room for the others comes off, but half of the files at most.
fn bounded(wanted: usize, files: usize) -> usize {
    wanted.min(files.saturating_sub(OTHERS).max(files / 2)).max(1)
}

/// The limit after raising it; `None` is none.
fn raised(limit: Rlimit) -> Option<u64> {
    let higher = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, higher).is_ok() {
        return limit.maximum;
    }
    limit.current
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn connections_leave_room_for_the_rest() {
        assert_eq!(bounded(10_000, 1 << 20), 10_000);
        assert_eq!(bounded(10_000, 1_024), 768);
        assert_eq!(bounded(10_000, 64), 32);
        assert_eq!(bounded(10, 1_024), 10);
        assert_eq!(bounded(10, 0), 1);
    }
}
