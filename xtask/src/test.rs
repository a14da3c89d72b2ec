//! All tests, cheapest first.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::bots;
use crate::steps::{cargo, step};

/// Formatting, lints, bots, build, tests; ends with one line of counts.
pub(crate) fn test() -> Result<()> {
    step("formatting", cargo().args(["fmt", "--all", "--check"]))?;
    bots::bots()?;
    bots::lint()?;
    step(
        "clippy (checks every dependency the first time)",
        cargo().args(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )?;
    step(
        "build (a first build takes some ten minutes on two cores: wasmtime's compiler is large)",
        cargo().args(["build", "--locked", "--workspace", "--all-targets"]),
    )?;
    run_tests()
}

fn run_tests() -> Result<()> {
    println!("\n== tests");
    let mut child = cargo()
        .args(["test", "--locked", "--workspace", "--no-fail-fast"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo cannot be started")?;
    let output = child.stdout.take().context("the tests' output cannot be read")?;
    let mut counts = [0_u64; 3];
    for line in BufReader::new(output).lines() {
        let line = line.context("the tests' output cannot be read")?;
        println!("{line}");
        add_counts(&line, &mut counts);
    }
    let status = child.wait().context("the tests' end was missed")?;
    let [passed, failed, skipped] = counts;
    println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    if !status.success() {
        bail!("some tests failed.");
    }
    if passed == 0 {
        bail!("no test was run.");
    }
    Ok(())
}

/// Adds the numbers of a line like `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn add_counts(line: &str, counts: &mut [u64; 3]) {
    let Some((_, rest)) = line.split_once("test result: ") else { return };
    let words: Vec<&str> = rest.split([' ', ';', '.']).filter(|w| !w.is_empty()).collect();
    for pair in words.windows(2) {
        let (Ok(number), Some(index)) = (
            pair.first().copied().unwrap_or_default().parse::<u64>(),
            pair.get(1).and_then(|w| ["passed", "failed", "ignored"].iter().position(|k| k == w)),
        ) else {
            continue;
        };
        if let Some(count) = counts.get_mut(index) {
            *count += number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::add_counts;

    #[test]
    fn counts_what_cargo_prints() {
        let mut counts = [0; 3];
        add_counts(
            "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            &mut counts,
        );
        add_counts("running 3 tests", &mut counts);
        assert_eq!(counts, [12, 1, 2]);
    }
}
