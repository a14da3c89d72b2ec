//! Fuzzing: every target of `fuzz/` for so many seconds, on its seeds and on what earlier runs have found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, root, step, target};

const TARGETS: &[&str] = &["webhook_body", "webhook_headers", "sse_writer", "manifest", "settings", "component"];
/// What is installed where there is none.
const CARGO_FUZZ: &str = "0.13.2";
/// What one input may take, in seconds and MiB, before it counts as found.
const SECONDS_EACH: u32 = 10;
const MEMORY_MB: u32 = 2048;
/// The longest input, in bytes.
const MAX_LEN: u32 = 16 * 1024;

/// Builds the targets and runs each for `seconds`.
pub(crate) fn fuzz(seconds: &str) -> Result<()> {
    let seconds: u32 = seconds.parse().with_context(|| format!("`{seconds}` is no number of seconds"))?;
    if seconds == 0 {
        bail!("fuzzing for 0 seconds finds nothing.");
    }
    let programs = build()?;
    let mut summary = Vec::new();
    for (number, name) in (1..).zip(TARGETS) {
        println!("\n== {name} ({number} of {}): {seconds} s", TARGETS.len());
        let figures = run(&programs.join(name), name, seconds)?;
        println!("== {name}: {figures}");
        summary.push((name, figures));
    }
    println!("\n{:<16} {:>10} {:>8} {:>9} {:>9} {:>7}", "target", "runs", "runs/s", "coverage", "features", "inputs");
    for (name, f) in summary {
        println!("{name:<16} {:>10} {:>8} {:>9} {:>9} {:>7}", f.runs, f.per_second, f.coverage, f.features, f.inputs);
    }
    println!("No target failed. What was found on the way is in fuzz/corpus; the next run begins with it.");
    Ok(())
}

/// Builds all targets, and gives the folder they are in.
fn build() -> Result<PathBuf> {
    let own = target().join("tools");
    let installed = own.join("bin").join("cargo-fuzz");
    let program = if answers("cargo-fuzz", &["fuzz", "--version"]) {
        PathBuf::from("cargo-fuzz")
    } else {
        if !installed.is_file() {
            step(
                "cargo-fuzz, into target/tools (two minutes, once)",
                cargo().args(["install", "--locked", "cargo-fuzz", "--version", CARGO_FUZZ, "--root"]).arg(&own),
            )?;
        }
        installed
    };
    if !answers("c++", &["--version"]) {
        bail!("libFuzzer is C++, and there is no `c++` here: install a compiler (Debian: `apt install g++`).");
    }
    let triple = host_triple()?;
    let folder = root().join("fuzz");
    // Without a sanitizer, which would want a nightly compiler: the code under test has no `unsafe`.
    step(
        "fuzz targets, with coverage counters (some minutes the first time)",
        Command::new(&program)
            .current_dir(root())
            .args(["fuzz", "build", "--sanitizer", "none", "--target", &triple, "--fuzz-dir"])
            .arg(&folder)
            .env("CARGO_TARGET_DIR", folder.join("target")),
    )?;
    Ok(folder.join("target").join(triple).join("release"))
}

/// Whether there is such a program and it works.
fn answers(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn host_triple() -> Result<String> {
    let output = Command::new("rustc").current_dir(root()).arg("-vV").output().context("rustc cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` does not say what machine this is")
}

/// What a run came to.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    runs: String,
    per_second: String,
    coverage: String,
    features: String,
    inputs: String,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { runs, per_second, coverage, features, inputs } = self;
        write!(f, "{runs} runs, {per_second}/s; {coverage} places covered, {features} features, {inputs} inputs kept")
    }
}

/// Runs one target; an input that fails it is an error that names the input's file.
fn run(program: &Path, name: &str, seconds: u32) -> Result<Figures> {
    let folder = root().join("fuzz");
    let (corpus, artifacts) = (folder.join("corpus").join(name), folder.join("artifacts").join(name));
    for dir in [&corpus, &artifacts] {
        fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    }
    let output = Command::new(program)
        .current_dir(&folder)
        .args([
            format!("-max_total_time={seconds}"),
            format!("-timeout={SECONDS_EACH}"),
            format!("-rss_limit_mb={MEMORY_MB}"),
            format!("-max_len={MAX_LEN}"),
            format!("-artifact_prefix={}/", artifacts.display()),
            "-print_final_stats=1".into(),
        ])
        .arg(&corpus)
        .arg(folder.join("seeds").join(name))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let told: Vec<&str> = log.lines().filter(|line| !line.starts_with('#')).take(60).collect();
        println!("{}", told.join("\n"));
        match failing_input(&log) {
            Some(file) => bail!(
                "the target {name} failed on the input {file}\nAgain with: {} {file}\nMend it, and keep the input: copy it \
                 into fuzz/seeds/{name}/.",
                program.display()
            ),
            None => bail!("the target {name} ended with {}; its output is above.", output.status),
        }
    }
    figures(&log).with_context(|| format!("the target {name} gave no figures:\n{log}"))
}

fn failing_input(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, file)| file.trim())
}

/// Reads libFuzzer's last line of progress, like `#900243 DONE cov: 2307 ft: 6868 corp: 1129/291Kb lim: 2090 exec/s: 34624`.
fn figures(log: &str) -> Option<Figures> {
    let line = log.lines().rfind(|line| line.starts_with('#') && line.contains(" cov: "))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).map(|word| (*word).to_owned())
    };
    Some(Figures {
        runs: words.first()?.trim_start_matches('#').to_owned(),
        per_second: after("exec/s:")?,
        coverage: after("cov:")?,
        features: after("ft:")?,
        inputs: after("corp:")?.split('/').next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_libfuzzer_prints() {
        let log = "#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                   #900243\tDONE   cov: 2307 ft: 6868 corp: 1129/291Kb lim: 2090 exec/s: 34624 rss: 30Mb\nDone 900243 runs\n";
        let text = |text: &str| text.to_owned();
        let expected = Figures {
            runs: text("900243"),
            per_second: text("34624"),
            coverage: text("2307"),
            features: text("6868"),
            inputs: text("1129"),
        };
        assert_eq!(figures(log), Some(expected));
        assert_eq!(figures("INFO: Seed: 1\n"), None);
        let crash = "==1== ERROR: libFuzzer: deadly signal\nartifact_prefix='a/'; Test unit written to a/crash-1\n";
        assert_eq!(failing_input(crash), Some("a/crash-1"));
        assert_eq!(failing_input(log), None);
    }
}
