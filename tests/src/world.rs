//! One provider in a folder of its own, with the simulated network beside it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use avernest::sim::{Bcs, BcsOptions, Collected, Outcome};
use avernest::wire::Secret;

use crate::process::{Provider, bots_dir};

/// The provider's id in all tests.
pub const PROVIDER: &str = "prov-test";
/// The token that BCS comes with in all tests.
pub const TOKEN: &str = "bcs_b2p_0123456789abcdef0123456789abcdef";
/// The token of callbacks in all tests.
pub const BOT_TOKEN: &str = "bcs_rt_fedcba9876543210fedcba9876543210";

/// What a test may change of its world.
#[derive(Debug)]
pub struct WorldOptions {
    /// Settings beyond the usual, TOML, sections of their own.
    pub settings: String,
    /// Lines for `[provider]`.
    pub provider: String,
    /// Further tokens of BCS.
    pub extra_tokens: Vec<String>,
    /// The bots in the folder at the start.
    pub bots: Vec<&'static str>,
    /// The simulated BCS.
    pub bcs: BcsOptions,
}

/// A provider and its network.
pub struct World {
    dir: tempfile::TempDir,
    /// The running provider.
    pub provider: Provider,
    /// The simulated BCS.
    pub bcs: Bcs,
}

impl World {
    /// With the usual settings, `echo` and `probe`.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// With changed ones.
    ///
    /// # Panics
    /// If it does not come up.
    pub async fn start_with(change: impl FnOnce(&mut WorldOptions)) -> Self {
        let mut options = WorldOptions {
            settings: String::new(),
            provider: String::new(),
            extra_tokens: Vec::new(),
            bots: vec!["echo", "probe"],
            bcs: BcsOptions {
                provider_id: PROVIDER.into(),
                b2p_token: Secret::new(TOKEN),
                bot_runtime_token: Some(Secret::new(BOT_TOKEN)),
                ..BcsOptions::default()
            },
        };
        change(&mut options);
        let dir = tempfile::tempdir().unwrap();
        let bcs = Bcs::start(options.bcs.clone()).await.unwrap();
        std::fs::create_dir(dir.path().join("plugins")).unwrap();
        let mut tokens = format!("{TOKEN:?}");
        for token in &options.extra_tokens {
            let _ = write!(tokens, ", {token:?}");
        }
        let settings = format!(
            "[provider]\nid = \"{PROVIDER}\"\nbcs_url = \"{}\"\nbcs_to_provider_token = [{tokens}]\n\
             bot_runtime_token = \"{BOT_TOKEN}\"\n{}\n[plugins]\ndir = {:?}\n[data]\ndir = {:?}\n\
             [server]\nlisten = \"127.0.0.1:0\"\n{}",
            bcs.url(),
            options.provider,
            dir.path().join("plugins"),
            dir.path().join("data"),
            options.settings.trim_start_matches("[server]"),
        );
        std::fs::write(dir.path().join("avernest.toml"), settings).unwrap();
        for bot in &options.bots {
            install(dir.path(), bot, bot);
        }
        let provider = Provider::start(&dir.path().join("avernest.toml"));
        bcs.connect(&provider.webhook());
        Self { dir, provider, bcs }
    }

    /// The provider's address.
    #[must_use]
    pub fn base(&self) -> String {
        self.provider.base.clone()
    }

    /// The folder of everything.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The plugins folder.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.dir.path().join("plugins")
    }

    /// The settings file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("avernest.toml")
    }

    /// Puts a sample bot into the folder under a name, by rename.
    pub fn install(&self, bot: &str, name: &str) {
        install(self.dir.path(), bot, name);
    }

    /// kill -9 and a new start on the same data.
    pub fn crash_and_restart(&mut self) {
        self.provider.kill();
        // From here on the simulated BCS forgives what only a restart explains: a callback that was taken just before
        // the kill, too late to be noted, comes once more, with its event id.
        self.bcs.connect(&self.provider.webhook());
        self.restart();
    }

    /// A new start on the same data, after the old process has ended.
    pub fn restart(&mut self) {
        self.provider = Provider::start(&self.config());
        self.bcs.connect(&self.provider.webhook());
    }

    /// Sends a text over SSE and reads the stream to its end.
    ///
    /// # Panics
    /// If it does not answer with a stream that ends.
    pub async fn say(&self, bot: &str, session: &str, text: &str) -> Collected {
        self.bcs.send(bot, session, text).await.unwrap().sse().unwrap().collect().await.unwrap()
    }

    /// The same, where a reply is expected.
    ///
    /// # Panics
    /// If there is no reply.
    pub async fn ask(&self, bot: &str, session: &str, text: &str) -> String {
        let said = self.say(bot, session, text).await;
        match said.outcome {
            Outcome::Final { text, .. } => text,
            other => panic!("{text:?} brought no reply but: {other}"),
        }
    }
}

fn install(dir: &Path, bot: &str, name: &str) {
    let plugins = dir.join("plugins");
    let part = plugins.join(format!(".{name}.part"));
    std::fs::copy(bots_dir().join(format!("{bot}.wasm")), &part).unwrap();
    std::fs::rename(part, plugins.join(format!("{name}.wasm"))).unwrap();
}
