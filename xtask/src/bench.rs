//! The benchmark: an optimized build of its own, then everything side by side in one run.

use anyhow::Result;

use crate::bots;
use crate::steps::{cargo, step};

/// Builds and runs the benchmark.
pub(crate) fn bench() -> Result<()> {
    bots::bots()?;
    step(
        "an optimized host (wasmtime is built once more for it)",
        cargo().args(["build", "--locked", "--release", "-p", "avernest"]),
    )?;
    step("benchmark", cargo().args(["bench", "--locked", "-p", "avernest-tests", "--bench", "provider"]))
}
