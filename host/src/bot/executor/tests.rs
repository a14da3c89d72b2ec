#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::bot::engine::Engines;
use crate::bot::{CancelCause, CancelToken};

fn guests(threads: usize) -> Guests {
    Guests::start(Engines::new(0).unwrap(), threads, &Handle::current()).unwrap()
}

fn state(cancel: &CancelToken) -> Arc<TaskState> {
    Arc::new(TaskState::new(cancel.clone(), None, Duration::from_secs(3600)))
}

/// What a spinning guest does, without wasm: looks up now and then, and gives way when it is told to.
async fn spin(state: Arc<TaskState>, turns: Arc<AtomicUsize>) -> Verdict {
    loop {
        std::thread::sleep(Duration::from_micros(200));
        match state.at_tick() {
            Verdict::Go => {}
            Verdict::Yield => {
                turns.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
            end => return end,
        }
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "not within 20 s");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panics_are_caught_and_threads_live_on() {
    let guests = guests(1);
    let token = CancelToken::default();
    let error = guests.spawn(state(&token), async { panic!("boom {}", 1) }).end().await.unwrap_err();
    assert!(error.contains("boom 1"), "{error}");
    assert_eq!(guests.spawn(state(&token), async { 7 }).end().await, Ok(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_guests_take_turns_and_short_ones_go_first() {
    let guests = guests(1);
    let counts: Vec<Arc<AtomicUsize>> = (0..3).map(|_| Arc::default()).collect();
    let tokens: Vec<CancelToken> = (0..3).map(|_| CancelToken::default()).collect();
    let running: Vec<_> = tokens
        .iter()
        .zip(&counts)
        .map(|(token, count)| {
            let state = state(token);
            guests.spawn(state.clone(), spin(state, count.clone()))
        })
        .collect();
    until(|| counts.iter().all(|count| count.load(Ordering::SeqCst) >= 4)).await;
    let turns: Vec<usize> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
    // In a round each waits for the others; only the first turns differ.
    assert!(most - least <= 4, "{turns:?}");
    let before: usize = counts.iter().map(|count| count.load(Ordering::SeqCst)).sum();
    assert_eq!(guests.spawn(state(&CancelToken::default()), async { 1 }).end().await, Ok(1));
    let after: usize = counts.iter().map(|count| count.load(Ordering::SeqCst)).sum();
    println!("a short guest waited for {} turns of long ones", after - before);
    for token in &tokens {
        token.cancel(CancelCause::Aborted);
    }
    guests.nudge();
    for guest in running {
        assert_eq!(guest.end().await, Ok(Verdict::Stop));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guest_is_dropped_on_its_thread() {
    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            assert!(thread::current().name().unwrap().starts_with("avernest-bot"));
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let guests = guests(1);
    for spins in [false, true] {
        let gone = Arc::new(AtomicBool::new(false));
        let started = Arc::new(AtomicBool::new(false));
        let state = state(&CancelToken::default());
        let guest = guests.spawn(state.clone(), {
            let (mine, started) = (Gone(gone.clone()), started.clone());
            async move {
                let _mine = mine;
                started.store(true, Ordering::SeqCst);
                if spins {
                    spin(state, Arc::default()).await;
                } else {
                    std::future::pending::<()>().await;
                }
            }
        });
        until(|| started.load(Ordering::SeqCst)).await;
        drop(guest);
        until(|| gone.load(Ordering::SeqCst)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_shutdown_nothing_runs() {
    let guests = guests(2);
    let spinning = state(&CancelToken::default());
    let guest = guests.spawn(spinning.clone(), spin(spinning, Arc::default()));
    let waiting = guests.spawn(state(&CancelToken::default()), std::future::pending::<()>());
    guests.shutdown();
    assert!(matches!(guest.end().await, Ok(Verdict::Stop) | Err(_)));
    let late = guests.spawn(state(&CancelToken::default()), async { 1 });
    assert!(late.end().await.is_err());
    drop(waiting);
}

#[test]
fn time_used_makes_a_long_guest_and_then_ends_it() {
    let state = TaskState::new(CancelToken::default(), None, Duration::from_millis(30));
    assert_eq!(state.level(), queue::Level::New);
    let measured = Measured::new(
        async {
            std::thread::sleep(Duration::from_millis(15));
        },
        Arc::new(state),
    );
    let state = measured.state();
    futures_util::FutureExt::now_or_never(measured).unwrap().unwrap();
    assert_eq!(state.level(), queue::Level::Hog);
    let measured = Measured::new(async { std::thread::sleep(Duration::from_millis(20)) }, state.clone());
    futures_util::FutureExt::now_or_never(measured).unwrap().unwrap();
    assert_eq!(state.at_tick(), Verdict::CpuLimit);
}
