//! Compiling in a process of its own: a large component leaves hundreds of megabytes behind in the one that did it,
//! and a component that is made to upset the compiler harms nobody else.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::engine::new_engine;
use super::imports::cut;
use super::load_error::LoadError;

/// The hidden subcommand of the binary that calls [`compile_main`].
pub const COMPILE_SUBCOMMAND: &str = "compile-component";

/// The address space that compiling may take.
const ADDRESS_SPACE: u64 = 4 << 30;

/// How much of what the child says about an error is passed on.
const ERROR_TEXT: usize = 2 * 1024;

/// How components are compiled.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// In this process: for tests and for tools that end soon after. A server's memory would grow with each build,
    /// and nothing bounds the compiler's time.
    InProcess,
    /// In a child process: this executable, called with [`COMPILE_SUBCOMMAND`].
    Child(PathBuf),
}

impl Compiler {
    /// A child process of the executable that runs now.
    ///
    /// # Errors
    /// When the system does not say where it is.
    pub fn this_executable() -> std::io::Result<Self> {
        // This name stays right when the file is replaced by an upgrade while the old host still runs.
        let own = PathBuf::from("/proc/self/exe");
        if own.exists() { Ok(Self::Child(own)) } else { std::env::current_exe().map(Self::Child) }
    }

    pub(super) async fn compile(&self, wasm: Vec<u8>, timeout: Duration) -> Result<Vec<u8>, LoadError> {
        match self {
            Self::InProcess => tokio::task::spawn_blocking(move || precompile(&wasm))
                .await
                .map_err(|error| LoadError::Internal(format!("the compiler failed: {error}")))?
                .map_err(LoadError::Compile),
            Self::Child(path) => match tokio::time::timeout(timeout, compile_in_child(path.clone(), wasm)).await {
                Ok(result) => result,
                // The child is killed by being dropped.
                Err(_) => Err(LoadError::CompileTimeout(timeout)),
            },
        }
    }
}

async fn compile_in_child(path: PathBuf, wasm: Vec<u8>) -> Result<Vec<u8>, LoadError> {
    let internal = |what: &str, error: std::io::Error| LoadError::Internal(format!("{what}: {error}"));
    let mut child = Command::new(&path)
        .arg(COMPILE_SUBCOMMAND)
        // It needs nothing of it, and tokens may be in there.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| internal(&format!("the compiler {} could not be started", path.display()), error))?;
    let (code, error_text) = talk(&mut child, &wasm).await.map_err(|e| internal("the compiler failed", e))?;
    let status = child.wait().await.map_err(|error| internal("the compiler failed", error))?;
    if status.success() {
        return Ok(code);
    }
    let text = String::from_utf8_lossy(&error_text).trim().to_owned();
    Err(LoadError::Compile(if status.code().is_some() && !text.is_empty() {
        cut(text, ERROR_TEXT)
    } else {
        let said = if text.is_empty() { String::new() } else { format!(": {}", cut(text, ERROR_TEXT)) };
        format!("the compiler ended with {status}; it may have needed more than 4 GiB of memory{said}")
    }))
}

/// Feeds the child and takes what it gives, both at once: either can wait for the other.
async fn talk(child: &mut Child, wasm: &[u8]) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(std::io::Error::other("its pipes are missing"));
    };
    let feed = async {
        // A child that refuses early does not read to the end; its exit says why.
        let _ = stdin.write_all(wasm).await;
        drop(stdin);
    };
    let mut code = Vec::new();
    let mut error_text = Vec::new();
    let errors = async {
        let mut stderr = stderr;
        (&mut stderr).take(ERROR_TEXT as u64).read_to_end(&mut error_text).await?;
        tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await
    };
    let ((), code_read, errors_read) = tokio::join!(feed, stdout.read_to_end(&mut code), errors);
    code_read.and(errors_read)?;
    Ok((code, error_text))
}

/// What the binary does for [`COMPILE_SUBCOMMAND`]: a component on stdin, its compiled form on stdout. An error is one
/// sentence on stderr.
#[must_use]
pub fn compile_main() -> ExitCode {
    limit_self();
    match compile_stream(std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compile_stream(mut input: impl Read, mut output: impl Write) -> Result<(), String> {
    let mut wasm = Vec::new();
    input.read_to_end(&mut wasm).map_err(|error| format!("the component could not be read: {error}"))?;
    let code = precompile(&wasm)?;
    drop(wasm);
    output
        .write_all(&code)
        .and_then(|()| output.flush())
        .map_err(|error| format!("the compiled component could not be handed over: {error}"))
}

fn precompile(wasm: &[u8]) -> Result<Vec<u8>, String> {
    new_engine()?.precompile_component(wasm).map_err(|error| format!("{error:#}"))
}

/// Best effort: the parent's timeout holds in any case.
fn limit_self() {
    let lower = |resource: Resource, to: u64| {
        let now = rustix::process::getrlimit(resource);
        let least = |old: Option<u64>| Some(old.map_or(to, |old| old.min(to)));
        let _ =
            rustix::process::setrlimit(resource, Rlimit { current: least(now.current), maximum: least(now.maximum) });
    };
    lower(Resource::As, ADDRESS_SPACE);
    lower(Resource::Core, 0);
    let _ = rustix::process::nice(10);
}

#[cfg(test)]
mod tests;
