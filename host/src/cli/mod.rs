//! The commands, one file each. They only read arguments, wire the parts together and show what comes of it.

mod demo;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A self-hosted Bot Provider for Avernet's Bot Coordination Network. Every bot is a WebAssembly component in a folder.
#[derive(Debug, Parser)]
#[command(name = "avernest", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the bots of the plugins folder to the network.
    Serve {
        /// The settings file; `avernest.toml` in the working directory if there is one.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print all settings with defaults and meanings, and exit.
        #[arg(long)]
        print_config: bool,
    },
    /// Show a conversation over a simulated network, bots and all.
    Demo {
        /// The folder with the sample bots' `.wasm` files.
        #[arg(long, value_name = "DIR", default_value = "target/bots")]
        bots: PathBuf,
        /// Leave after the show; the exit code says whether every step worked.
        #[arg(long)]
        once: bool,
    },
    /// Compile a component from stdin to stdout. The host runs this as a child process.
    #[command(hide = true)]
    CompileComponent,
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve { print_config: true, .. } => {
            print!("{}", crate::config::print_settings());
            ExitCode::SUCCESS
        }
        Command::Serve { config, .. } => done(serve::serve(config.as_deref())),
        Command::Demo { bots, once } => done(demo::demo(&bots, once)),
        Command::CompileComponent => crate::bot::compile_main(),
    }
}

fn done(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("avernest: {error:#}");
            ExitCode::FAILURE
        }
    }
}
