//! The long form of what the tests of every day do briefly.

use anyhow::Result;

use crate::bots;
use crate::steps::{cargo, step};

/// A hundred kills in a row under load, on one data directory.
pub(crate) fn soak() -> Result<()> {
    bots::bots()?;
    step("build", cargo().args(["build", "--locked", "--workspace", "--all-targets"]))?;
    step(
        "a hundred kills",
        cargo()
            .args(["test", "--locked", "-p", "avernest-tests", "--test", "e2e", "--", "--nocapture", "torture"])
            .env("AVERNEST_TORTURE_ROUNDS", "100"),
    )
}
