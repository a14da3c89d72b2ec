//! Building the sample bots.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, root, step, target};

const WASM: &str = "wasm32-wasip2";

/// Builds every sample bot into `target/bots/NAME.wasm`.
pub(crate) fn bots() -> Result<()> {
    ensure_target()?;
    let folder = root().join("sample-bots");
    step(
        "sample bots (Rust to WebAssembly)",
        cargo()
            .current_dir(&folder)
            .args(["build", "--release", "--locked", "--target", WASM])
            .env("CARGO_TARGET_DIR", folder.join("target")),
    )?;
    let out = target().join("bots");
    fs::create_dir_all(&out).with_context(|| format!("{} cannot be made", out.display()))?;
    for bot in names(&folder)? {
        let built = folder.join("target").join(WASM).join("release").join(format!("{}.wasm", bot.replace('-', "_")));
        let to = out.join(format!("{bot}.wasm"));
        // Only when it differs: a host may be watching the folder.
        let new = fs::read(&built).with_context(|| format!("{} was not built", built.display()))?;
        if fs::read(&to).ok().as_deref() != Some(&new) {
            let part = out.join(format!(".{bot}.part"));
            fs::write(&part, &new).with_context(|| format!("{} cannot be written", part.display()))?;
            fs::rename(&part, &to).with_context(|| format!("{} cannot be written", to.display()))?;
        }
        println!("   {} ({} KiB)", to.display(), new.len() / 1024);
    }
    Ok(())
}

/// Lints the sample bots too: they are what authors copy from.
pub(crate) fn lint() -> Result<()> {
    let folder = root().join("sample-bots");
    step("sample bots: formatting", cargo().current_dir(&folder).args(["fmt", "--all", "--check"]))?;
    step(
        "sample bots: clippy",
        cargo()
            .current_dir(&folder)
            .args(["clippy", "--release", "--locked", "--target", WASM, "--", "-D", "warnings"])
            .env("CARGO_TARGET_DIR", folder.join("target")),
    )
}

/// The Rust bots: the folders with a Cargo.toml.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn ensure_target() -> Result<()> {
    let libdir =
        Command::new("rustc").current_dir(root()).args(["--print", "target-libdir", "--target", WASM]).output();
    let installed =
        libdir.is_ok_and(|o| o.status.success() && Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir());
    if installed {
        return Ok(());
    }
    let added = step(
        "Rust's standard library for WebAssembly",
        Command::new("rustup").current_dir(root()).args(["target", "add", WASM]),
    );
    if let Err(error) = added {
        bail!(
            "the sample bots need Rust's {WASM} target, and it could not be added ({error:#}).\n\
             With rustup: `rustup target add {WASM}`. Without it, or where its server cannot be reached, install the\n\
             target's standard library from your system's packages (Debian: libstd-rust-dev-wasm32 or a -Zbuild-std build)."
        );
    }
    Ok(())
}
