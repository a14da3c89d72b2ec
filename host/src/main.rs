//! The `avernest` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    avernest::cli::main()
}
