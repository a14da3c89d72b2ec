//! The registry on real folders, with real file operations and a loader that reads plain words.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changes;
mod disorder;
mod manifests;
mod odd_files;
mod start;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::*;
use crate::bot::loader::{LoadFailure, LoadFuture};

/// Longer than anything here takes, also on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// Loads text: `good:NAME;` is a bot called NAME, `slow:NAME;` one that waits at the gate first, `panic` panics, a
/// beginning of `good:…;` is incomplete, and anything else is no bot.
struct FakeLoader {
    gate: Semaphore,
    loads: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Loader for Arc<FakeLoader> {
    type Bot = String;

    fn load(&self, _name: &str, wasm: Vec<u8>) -> LoadFuture<String> {
        let this = Arc::clone(self);
        Box::pin(async move {
            this.loads.fetch_add(1, Ordering::SeqCst);
            let at_once = this.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            this.most_at_once.fetch_max(at_once, Ordering::SeqCst);
            let text = String::from_utf8_lossy(&wasm).into_owned();
            if text.starts_with("slow:") {
                this.gate.acquire().await.unwrap().forget();
            }
            this.at_once.fetch_sub(1, Ordering::SeqCst);
            assert_ne!(text, "panic", "as asked");
            let failure = |incomplete, message: &str| LoadFailure { incomplete, message: message.to_owned() };
            let Some((word, rest)) = text.split_once(':') else {
                return Err(failure("good".starts_with(&text), "it is no bot"));
            };
            match rest.strip_suffix(';') {
                Some(name) if word == "good" || word == "slow" => Ok(Arc::new(name.to_owned())),
                None if word == "good" => Err(failure(true, "it ends too early")),
                _ => Err(failure(false, "it is no bot")),
            }
        })
    }
}

/// A registry on a folder of its own.
struct Folder {
    dir: PathBuf,
    loader: Arc<FakeLoader>,
    registry: Arc<Registry<Arc<FakeLoader>>>,
    _temp: tempfile::TempDir,
}

impl Folder {
    /// `files` are there at the start.
    async fn with(files: &[(&str, &str)], change: impl FnOnce(&mut RegistryOptions)) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("plugins");
        fs::create_dir(&dir).unwrap();
        for (name, content) in files {
            fs::write(dir.join(name), content).unwrap();
        }
        Self::at(temp, dir, change).await
    }

    async fn at(temp: tempfile::TempDir, dir: PathBuf, change: impl FnOnce(&mut RegistryOptions)) -> Self {
        let mut options = RegistryOptions::new(dir.clone());
        options.settle = Duration::from_millis(60);
        options.young = Duration::from_millis(600);
        options.poll_interval = Duration::from_millis(500);
        change(&mut options);
        let loader = Arc::new(FakeLoader {
            gate: Semaphore::new(0),
            loads: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        });
        let registry = Registry::start(options, Arc::new(Arc::clone(&loader)), &Handle::current());
        let folder = Self { dir, loader, registry, _temp: temp };
        tokio::time::timeout(LONG, folder.registry.first_scan()).await.expect("a first scan");
        folder
    }

    async fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, |_| {}).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file as a careful tool does: beside it, then renamed.
    fn put(&self, name: &str, content: &str) {
        let temporary = self.path(".new");
        fs::write(&temporary, content).unwrap();
        fs::rename(temporary, self.path(name)).unwrap();
    }

    /// What is served, or the kind of what is not.
    fn answer(&self, bot: &str) -> String {
        match self.registry.lookup(&BotRef::parse(bot).unwrap()) {
            Lookup::Serving(served) => served.bot.as_ref().clone(),
            Lookup::Loading => "(loading)".into(),
            Lookup::Broken(_) => "(broken)".into(),
            Lookup::Unknown => "(unknown)".into(),
        }
    }

    fn served(&self, bot: &str) -> Arc<Served<String>> {
        match self.registry.lookup(&BotRef::parse(bot).unwrap()) {
            Lookup::Serving(served) => served,
            _ => panic!("{bot} is {}", self.answer(bot)),
        }
    }

    fn status(&self, bot: &str) -> BotStatus {
        self.registry.status(&BotRef::parse(bot).unwrap()).expect(bot)
    }

    /// The error that a bot shows, once it shows one.
    async fn error(&self, bot: &str) -> String {
        let bot = BotRef::parse(bot).unwrap();
        let error = || self.registry.status(&bot).and_then(|status| status.last_error);
        self.eventually(bot.as_str(), || error().is_some()).await;
        error().unwrap().message
    }

    async fn answers(&self, bot: &str, expected: &str) {
        self.eventually(&format!("{bot} to be {expected}"), || self.answer(bot) == expected).await;
    }

    async fn problem(&self, file: &str) -> String {
        let find = || self.registry.problems().into_iter().find(|problem| problem.file == file);
        self.eventually(&format!("a problem of {file}"), || find().is_some()).await;
        find().unwrap().message
    }

    async fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + LONG;
        while !holds() {
            let (statuses, problems) = (self.registry.statuses(), self.registry.problems());
            assert!(Instant::now() < end, "waited for {what}; there is {statuses:#?} and {problems:#?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until the watcher has surely looked again: a file that it did not know is served.
    async fn looked(&self) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("looked-{}", NEXT.fetch_add(1, Ordering::SeqCst));
        self.put(&format!("{name}.wasm"), &format!("good:{name};"));
        self.answers(&name, &name).await;
        fs::remove_file(self.path(&format!("{name}.wasm"))).unwrap();
    }
}

fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) {
    std::os::unix::fs::symlink(target, link).unwrap();
}

/// Sets a file's time of change back, so that it is no longer young.
fn age(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).unwrap();
}
