//! The wasmtime engine, and the clock that makes running guests look up.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::{Config, Engine, WasmBacktraceDetails};

/// How often a running guest looks whether it is to stop or to make room.
const TICK: Duration = Duration::from_millis(1);

/// After so many ticks without a running guest the ticker sleeps.
const IDLE_TICKS: u32 = 100;

/// The engine that compiles and runs bots. The compile process makes the same one: what it writes loads here.
///
/// # Errors
/// When wasmtime does not support this machine; its words say why.
pub(super) fn new_engine() -> Result<Engine, String> {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        // Function names are enough for people; reading a guest's debug info would be work that nothing can stop.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(20));
    Engine::new(&config).map_err(|error| format!("the wasm engine cannot run on this machine: {error:#}"))
}

/// Increments the engine's epoch while guests run, on a thread of its own, so that nothing can hold it up.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    engine: Engine,
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl Ticker {
    /// Starts it, asleep until a guest runs.
    pub(super) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            engine,
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let thread = thread::Builder::new().name("avernest-tick".into()).spawn({
            let shared = shared.clone();
            move || shared.run()
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A guest begins to run.
    pub(super) fn enter(&self) {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        // Either this sees the ticker asleep, or the ticker sees this guest before it sleeps.
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.unpark();
        }
    }

    /// A guest has stopped running.
    pub(super) fn leave(&self) {
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes all running guests look up now.
    pub(super) fn tick(&self) {
        self.shared.engine.increment_epoch();
    }

    fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut idle = 0;
        while !self.stop.load(Ordering::SeqCst) {
            if self.running.load(Ordering::SeqCst) > 0 {
                idle = 0;
            } else {
                idle += 1;
            }
            if idle < IDLE_TICKS {
                thread::sleep(TICK);
                self.engine.increment_epoch();
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            while self.running.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
                thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.unpark();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed, and there is nobody left to tell.
            let _ = thread.join();
        }
    }
}
