//! What becomes of a callback after a try: a pure decision (rules from reference, section 5.3).

use super::bcs::Tried;
use crate::store::Settlement;

/// For this long a callback may meet 409 or 404 only because BCS has not yet read our acknowledgement.
const RACE_MS: u64 = 30_000;
/// And a callback whose first try comes late gets this many quick retries all the same, of 25 s together.
const RACE_TRIES: u32 = 8;
const RACE_FIRST_MS: u64 = 100;

const FIRST_MS: u64 = 500;
/// Full jitter may come out near zero; BCS is not asked more often than this.
const LEAST_MS: u64 = 50;
const MOST_MS: u64 = 60_000;

/// A wrong token is for a person to mend: rarely, until the end.
const REFUSED_MS: (u64, u64) = (30_000, 60_000);

/// One try of one body.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// How often this body was tried before.
    pub before: u32,
    /// How many bodies of the entry the server had before this try.
    pub done: usize,
    /// How many bodies the entry has.
    pub bodies: usize,
    /// When the entry came into the outbox, Unix milliseconds.
    pub created_at: u64,
    /// When trying ends, Unix milliseconds.
    pub give_up_at: u64,
    /// Now, Unix milliseconds.
    pub now: u64,
    /// A random number from 0 to 1.
    pub random: f64,
}

/// Decides what becomes of an entry after a try of its body at `done`.
#[must_use]
pub fn decide(tried: &Tried, attempt: &Attempt) -> Settlement {
    let (wait, error) = match tried {
        Tried::Answered { status: 200..=299, .. } => {
            let done = attempt.done + 1;
            return if done < attempt.bodies { Settlement::Progress { done } } else { Settlement::Delivered };
        }
        // The run's end is known already: an earlier try got through, or the deadline's did.
        Tried::Answered { status: 410, .. } => return Settlement::Delivered,
        Tried::Answered { status: 404 | 409, .. } => {
            let early = attempt.now.saturating_sub(attempt.created_at) < RACE_MS || attempt.before < RACE_TRIES;
            if !early {
                return Settlement::Dead { error: format!("{tried}, long after the acknowledgement") };
            }
            (doubled(RACE_FIRST_MS, attempt.before), tried.to_string())
        }
        Tried::Answered { status: 401 | 403, .. } | Tried::NotConfigured(_) => {
            let (least, most) = REFUSED_MS;
            (least + share(most - least, attempt.random), tried.to_string())
        }
        Tried::Answered { status: 300..=399 | 408 | 425 | 429 | 500.., retry_after_ms, .. } => {
            let told = retry_after_ms.unwrap_or(0).min(MOST_MS);
            (backoff(attempt).max(told), tried.to_string())
        }
        Tried::Answered { .. } => {
            return Settlement::Dead { error: format!("{tried}, which another try does not mend") };
        }
        Tried::Failed(_) => (backoff(attempt), tried.to_string()),
    };
    let at = attempt.now.saturating_add(wait);
    if at > attempt.give_up_at {
        return Settlement::Dead { error: format!("{error}; the time for trying is over") };
    }
    Settlement::Retry { at, error }
}

/// Exponential with full jitter.
fn backoff(attempt: &Attempt) -> u64 {
    share(doubled(FIRST_MS, attempt.before), attempt.random).max(LEAST_MS)
}

fn doubled(first: u64, times: u32) -> u64 {
    first.saturating_mul(1 << times.min(20)).min(MOST_MS)
}

fn share(of: u64, random: f64) -> u64 {
    (of as f64 * random.clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000;

    fn attempt(before: u32, age: u64) -> Attempt {
        Attempt { before, done: 0, bodies: 1, created_at: HOUR, give_up_at: 9 * HOUR, now: HOUR + age, random: 1.0 }
    }

    fn answered(status: u16) -> Tried {
        Tried::Answered { status, code: None, retry_after_ms: None }
    }

    /// The wait in milliseconds, if there is a retry.
    fn wait(tried: &Tried, attempt: &Attempt) -> Option<u64> {
        match decide(tried, attempt) {
            Settlement::Retry { at, .. } => Some(at - attempt.now),
            Settlement::Dead { error } => {
                assert!(!error.is_empty());
                None
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn taken() {
        assert_eq!(decide(&answered(200), &attempt(0, 0)), Settlement::Delivered);
        assert_eq!(decide(&answered(410), &attempt(0, 0)), Settlement::Delivered);
        let first = Attempt { done: 0, bodies: 3, ..attempt(0, 0) };
        assert_eq!(decide(&answered(204), &first), Settlement::Progress { done: 1 });
        assert_eq!(decide(&answered(410), &first), Settlement::Delivered);
        assert_eq!(decide(&answered(200), &Attempt { done: 2, ..first }), Settlement::Delivered);
    }

    #[test]
    fn a_race_is_retried_quickly_and_not_for_long() {
        for status in [404, 409] {
            let waits: Vec<_> = (0..4).map(|before| wait(&answered(status), &attempt(before, 0)).unwrap()).collect();
            assert_eq!(waits, [100, 200, 400, 800]);
            assert!(wait(&answered(status), &attempt(9, 29_999)).is_some());
            assert_eq!(wait(&answered(status), &attempt(8, 30_000)), None);
            // Away for an hour, then tried for the first time.
            assert_eq!(wait(&answered(status), &attempt(0, HOUR)), Some(100));
        }
    }

    #[test]
    fn what_may_pass_is_tried_with_growing_pauses() {
        for tried in
            [408, 425, 429, 500, 502, 503, 599, 302, 308].map(answered).into_iter().chain([Tried::Failed("x".into())])
        {
            let waits: Vec<_> = [0, 1, 2, 6, 7, 40].map(|before| wait(&tried, &attempt(before, HOUR)).unwrap()).into();
            assert_eq!(waits, [500, 1_000, 2_000, 32_000, 60_000, 60_000], "{tried}");
        }
        let told = |ms| Tried::Answered { status: 503, code: None, retry_after_ms: Some(ms) };
        assert_eq!(wait(&told(7_000), &attempt(0, 0)), Some(7_000));
        assert_eq!(wait(&told(10 * HOUR), &attempt(0, 0)), Some(60_000));
        assert_eq!(wait(&told(1), &attempt(0, 0)), Some(500));
    }

    #[test]
    fn what_a_person_must_mend_waits_long_and_the_rest_is_given_up() {
        for tried in [answered(401), answered(403), Tried::NotConfigured("x".into())] {
            assert_eq!(wait(&tried, &attempt(0, 0)), Some(60_000));
            assert_eq!(wait(&tried, &Attempt { random: 0.0, ..attempt(30, HOUR) }), Some(30_000));
        }
        for status in [400, 402, 405, 406, 411, 413, 415, 418, 422, 431] {
            assert_eq!(wait(&answered(status), &attempt(0, 0)), None, "{status}");
        }
    }

    fn any_tried() -> impl Strategy<Value = Tried> {
        prop_oneof![
            4 => (200..600_u16, proptest::option::of(any::<u64>()))
                .prop_map(|(status, retry_after_ms)| Tried::Answered { status, code: None, retry_after_ms }),
            1 => Just(Tried::Failed("x".into())),
            1 => Just(Tried::NotConfigured("x".into())),
        ]
    }

    proptest! {
        #[test]
        fn never_past_the_end_never_at_once_never_too_long(
            tried in any_tried(), before in any::<u32>(), now in any::<u64>(), created_at in any::<u64>(),
            left in 0..200_000_u64, random in 0.0..=1.0,
        ) {
            let give_up_at = now.saturating_add(left);
            let attempt = Attempt { before, done: 0, bodies: 1, created_at, give_up_at, now, random };
            match decide(&tried, &attempt) {
                Settlement::Retry { at, .. } => {
                    prop_assert!(at <= give_up_at);
                    prop_assert!(at >= now.saturating_add(LEAST_MS) && at <= now.saturating_add(MOST_MS));
                }
                Settlement::Delivered => {
                    let taken = matches!(tried, Tried::Answered { status: 200..=299 | 410, .. });
                    prop_assert!(taken);
                }
                Settlement::Dead { .. } => {}
                Settlement::Progress { .. } => prop_assert!(false, "there is one body"),
            }
            let late = Attempt { give_up_at: now.saturating_sub(1), ..attempt };
            let again = matches!(decide(&tried, &late), Settlement::Retry { .. });
            prop_assert!(!again);
        }
    }
}
