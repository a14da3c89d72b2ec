//! Why a file in the folder cannot serve as a bot.

use std::time::Duration;

use crate::text::one_line;

/// How much of the validator's words goes into the sentence, in characters.
const REASON: usize = 300;

/// Why a component was not loaded. Each is a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The first bytes are not those of WebAssembly.
    #[error("This is not WebAssembly: {0}.")]
    NotWasm(String),
    /// It ends in the middle: truncated, or still being written.
    #[error(
        "The file ends early, after {size} bytes: it is still being written, or was cut off. Write it under another \
         name and rename it when it is whole."
    )]
    Incomplete {
        /// The bytes there are.
        size: usize,
    },
    /// It is broken.
    #[error("The file is not valid WebAssembly, at byte {offset}: {}. Build it again.", one_line(.reason, REASON))]
    Invalid {
        /// Where in the file.
        offset: usize,
        /// What is wrong there.
        reason: String,
    },
    /// It is a core module.
    #[error(
        "This is a WebAssembly core module, and a bot is a component. In Rust build for the target `wasm32-wasip2`; \
         with another toolchain turn it into a component with `wasm-tools component new`."
    )]
    CoreModule,
    /// It does not export what a bot exports.
    #[error("{0}")]
    WrongWorld(String),
    /// It imports what this host does not offer.
    #[error("{0}")]
    UnknownImport(String),
    /// The compiler refused it.
    #[error("The component could not be compiled: {0}")]
    Compile(String),
    /// The compiler took too long.
    #[error(
        "Compiling the component took longer than {}; make it smaller, or raise the time that the host gives it.",
        humantime::format_duration(*.0)
    )]
    CompileTimeout(Duration),
    /// An instance could not be made of it.
    #[error("The component does not start: {0}")]
    Start(String),
    /// The host could not do its part.
    #[error("The component could not be loaded: {0}")]
    Internal(String),
}

impl LoadError {
    /// Whether the file may become good when its writer goes on.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        matches!(self, Self::Incomplete { .. })
    }
}
