//! Running programs as visible steps.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    // xtask is always run by cargo, from its own folder in the workspace.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder of build results.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command with a headline and the time it took; its output is shown as it comes.
pub(crate) fn step(what: &str, command: &mut Command) -> Result<()> {
    println!("\n== {what}");
    let begun = Instant::now();
    let status = command.status().with_context(|| format!("`{}` cannot be started", program(command)))?;
    if !status.success() {
        bail!("{what}: `{}` failed ({status}); its output is above.", program(command));
    }
    println!("== {what}: done in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn program(command: &Command) -> String {
    let mut words = vec![Path::new(command.get_program()).file_name().unwrap_or(command.get_program())];
    words.extend(command.get_args());
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}
