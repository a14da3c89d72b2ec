//! The wasmtime engines, and the clock that makes running guests look up.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::{Config, Enabled, Engine, PoolingAllocationConfig, WasmBacktraceDetails};

/// How often a running guest looks whether it is to stop or to make room.
const TICK: Duration = Duration::from_millis(1);

/// After so many ticks without a running guest the ticker sleeps.
const IDLE_TICKS: u32 = 100;

/// The most of a component's memories, tables and modules for which places are kept. What has more (none of the usual
/// toolchains makes it) gets its memory from the system at each call.
const MEMORIES: u32 = 2;
const TABLES: u32 = 8;
const MODULES: u32 = 100;

/// The largest table, in elements: as many as `limits.table_elements` can be.
const TABLE_ELEMENTS: usize = 10_000_000;

/// More places than this would take too much of the address space (8 GiB each of 128 TiB).
const MOST_PLACES: usize = 4_096;

/// How much of a place's memory, tables and stack stays with it between calls, in bytes: what a small call touches.
const KEPT_MEMORY: usize = 256 * 1024;
const KEPT_TABLE: usize = 64 * 1024;
const KEPT_STACK: usize = 64 * 1024;

/// The engine that compiles bots. The compile process makes the same one: what it writes loads in [`Engines`].
///
/// # Errors
/// When wasmtime does not support this machine; its words say why.
pub(super) fn new_engine() -> Result<Engine, String> {
    Engine::new(&config()).map_err(|error| format!("the wasm engine cannot run on this machine: {error:#}"))
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        // Function names are enough for people; reading a guest's debug info would be work that nothing can stop.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(20));
    config
}

/// The engines that run bots; compiled code loads in either. To map and unmap memory at every call is most of what a
/// small call costs, and the guest threads wait for each other meanwhile; with places that are mapped once it costs a
/// sixth (`cargo xtask bench`).
#[derive(Clone)]
pub(super) struct Engines {
    /// Places for instances, mapped once. Address space, no memory.
    pub(super) pooled: Option<Engine>,
    /// Memory from the system at each call, for what has no place.
    pub(super) on_demand: Engine,
}

impl Engines {
    /// Engines with places for `at_once` instances.
    ///
    /// # Errors
    /// As of [`new_engine`].
    pub(super) fn new(at_once: usize) -> Result<Self, String> {
        Ok(Self { pooled: pooled(at_once), on_demand: new_engine()? })
    }

    /// Makes all running guests look up now.
    pub(super) fn tick(&self) {
        self.on_demand.increment_epoch();
        if let Some(pooled) = &self.pooled {
            pooled.increment_epoch();
        }
    }
}

fn pooled(at_once: usize) -> Option<Engine> {
    let places = u32::try_from(at_once).ok().filter(|_| (1..=MOST_PLACES).contains(&at_once))?;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(places)
        .total_core_instances(places.saturating_mul(MODULES))
        .total_memories(places.saturating_mul(MEMORIES))
        .total_tables(places.saturating_mul(TABLES))
        .total_stacks(places)
        .max_core_instances_per_component(MODULES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_memories_per_module(MEMORIES)
        .max_tables_per_module(TABLES)
        .table_elements(TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEPT_MEMORY)
        .table_keep_resident(KEPT_TABLE)
        .async_stack_keep_resident(KEPT_STACK)
        // Resets only what a call wrote, where the kernel can tell (Linux 6.7 and later).
        .pagemap_scan(Enabled::Auto);
    let mut config = config();
    config.allocation_strategy(pool);
    match Engine::new(&config) {
        Ok(engine) => Some(engine),
        Err(error) => {
            tracing::info!(
                places, error = ?format!("{error:#}"),
                "no address space for places: bots get their memory from the system at each call, which is slower"
            );
            None
        }
    }
}

/// Increments the engine's epoch while guests run, on a thread of its own, so that nothing can hold it up.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    engines: Engines,
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl Ticker {
    /// Starts it, asleep until a guest runs.
    pub(super) fn start(engines: Engines) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            engines,
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
        self.shared.engines.tick();
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
                self.engines.tick();
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
