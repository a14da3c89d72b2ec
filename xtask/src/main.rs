//! `cargo xtask …`: the repo's own commands. Light on purpose: it must build in a second on a fresh machine.

mod bench;
mod bots;
mod demo;
mod fuzz;
mod soak;
mod steps;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <command>

  demo [--once]   build what is missing and show a real conversation; --once leaves after the show
  test            formatting, clippy, unit, property and end-to-end tests
  bots            build the sample bots into target/bots
  soak            the long form of the tests that kill the host: 100 kills on one data directory
  bench           measure, side by side with a bare HTTP handler
  fuzz SECONDS    try every fuzz target for so many seconds
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["demo"] => demo::demo(false),
        ["demo", "--once"] => demo::demo(true),
        ["test"] => test::test(),
        ["bots"] => bots::bots(),
        ["soak"] => soak::soak(),
        ["bench"] => bench::bench(),
        ["fuzz", seconds] => fuzz::fuzz(seconds),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: there is no command `{}`.\n\n{HELP}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
