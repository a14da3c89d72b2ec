//! The demo: builds what is missing, then `avernest demo` does the show.

use anyhow::{Context, Result, bail};

use crate::bots;
use crate::steps::{cargo, step, target};

/// Builds and runs the demo.
pub(crate) fn demo(once: bool) -> Result<()> {
    bots::bots()?;
    step(
        "the host (a first build takes some ten minutes on two cores: wasmtime's compiler is large)",
        cargo().args(["build", "--locked", "--workspace"]),
    )?;
    let mut command = std::process::Command::new(target().join("debug/avernest"));
    command.arg("demo").arg("--bots").arg(target().join("bots"));
    if once {
        command.arg("--once");
    }
    println!();
    let status = command.status().context("the host that was just built cannot be started")?;
    if !status.success() {
        bail!("the demo failed ({status}); the step that did is above.");
    }
    Ok(())
}
