//! The built program as a child process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::wait::PATIENCE;

/// The program: `AVERNEST_BIN`, or the one that cargo built beside the tests.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn binary() -> PathBuf {
    let path = std::env::var_os("AVERNEST_BIN").map(PathBuf::from).unwrap_or_else(|| {
        let mut dir = std::env::current_exe().expect("the test's own path");
        dir.pop();
        if dir.ends_with("deps") {
            dir.pop();
        }
        dir.join("avernest")
    });
    assert!(path.is_file(), "{} is not built: run `cargo xtask test`", path.display());
    path
}

/// The folder of the built sample bots.
///
/// # Panics
/// If they were not built.
#[must_use]
pub fn bots_dir() -> PathBuf {
    let dir = std::env::var_os("AVERNEST_BOTS_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bots"), PathBuf::from);
    assert!(dir.join("probe.wasm").is_file(), "the sample bots are not built: run `cargo xtask bots`");
    dir
}

/// A running provider. Killed when dropped.
#[derive(Debug)]
pub struct Provider {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub base: String,
    log: Arc<Mutex<String>>,
}

impl Provider {
    /// Starts `avernest serve` with these settings and waits for its ready line.
    ///
    /// # Panics
    /// If it does not become ready.
    #[must_use]
    pub fn start(config: &Path) -> Self {
        match Self::try_start(config) {
            Ok(provider) => provider,
            Err(log) => panic!("the provider did not become ready; its log:\n{log}"),
        }
    }

    /// The same; what it said if it did not become ready.
    ///
    /// # Errors
    /// Its output on stderr.
    pub fn try_start(config: &Path) -> Result<Self, String> {
        let mut child = Command::new(binary())
            .args(["serve", "--config"])
            .arg(config)
            .env_remove("AVERNEST_LOG_FORMAT")
            .env("AVERNEST_LOG", std::env::var("AVERNEST_LOG").unwrap_or_else(|_| "info".into()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = child.stderr.take().expect("stderr is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let (ready, wait) = mpsc::channel();
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some(rest) = line.strip_prefix("avernest ready on ") {
                    let _ = ready.send(rest.split(' ').next().unwrap_or_default().to_owned());
                }
                let mut log = kept.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        match wait.recv_timeout(PATIENCE) {
            Ok(base) => Ok(Self { child, base, log }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(log.lock().unwrap().clone())
            }
        }
    }

    /// The webhook's address.
    #[must_use]
    pub fn webhook(&self) -> String {
        format!("{}/webhook", self.base)
    }

    /// What it logged so far.
    ///
    /// # Panics
    /// Never in practice: the lock is only held to copy.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal by its name, like `TERM`.
    ///
    /// # Panics
    /// If `kill` is not there.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.is_ok_and(|s| s.success()), "kill -{name}");
    }

    /// Waits for its end and gives its exit code.
    ///
    /// # Panics
    /// If it does not end.
    pub fn wait(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "the provider did not end; its log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.kill();
    }
}
