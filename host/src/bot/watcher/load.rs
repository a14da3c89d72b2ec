//! One load: read the component, hash it, hand it to the loader.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use sha2::{Digest as _, Sha256};

use super::read::{Read, read_whole};
use super::scan::Sight;
use crate::bot::loader::Loader;
use crate::bot::manifest::Manifest;
use crate::bot::registry::Served;
use crate::wire::BotRef;

/// What is to be loaded.
pub(super) struct Job {
    pub(super) stem: OsString,
    pub(super) generation: u64,
    pub(super) sight: Sight,
    pub(super) bot_ref: BotRef,
    pub(super) manifest: Arc<Manifest>,
}

/// How a load ended.
pub(super) enum LoadEnd<B> {
    /// The file changed meanwhile.
    Moved,
    /// It is what is served already.
    Same,
    /// A bot.
    Loaded { bot: Arc<B>, hash: String },
    /// There is none.
    Failed {
        /// A sentence.
        message: String,
        /// Whether a file that is still being written may give this.
        maybe_unfinished: bool,
    },
}

/// Carries a job out. `serving` is what its files gave before.
pub(super) async fn load<L: Loader>(
    job: &Job,
    dir: &Path,
    max: u64,
    loader: &L,
    serving: Option<Arc<Served<L::Bot>>>,
) -> LoadEnd<L::Bot> {
    let file = job.sight.component_path.display().to_string();
    let Some(stamp) = job.sight.component.as_ref().and_then(|seen| seen.stamp()).copied() else {
        return LoadEnd::Moved;
    };
    let path = dir.join(&job.sight.component_path);
    let read = tokio::task::spawn_blocking(move || match read_whole(&path, &stamp, max) {
        Read::Whole(content) => {
            let hash = hex(&Sha256::digest(&content));
            Ok(Some((content, hash)))
        }
        Read::Moved => Ok(None),
        Read::Failed(why) => Err(why),
    });
    let (content, hash) = match read.await {
        Ok(Ok(Some(read))) => read,
        Ok(Ok(None)) => return LoadEnd::Moved,
        Ok(Err(why)) => return LoadEnd::Failed { message: format!("{file} {why}."), maybe_unfinished: false },
        Err(_) => return LoadEnd::Failed { message: format!("{file} could not be read."), maybe_unfinished: false },
    };
    if let Some(served) = serving.filter(|served| served.hash == hash && served.bot_ref == job.bot_ref) {
        if served.manifest == job.manifest {
            return LoadEnd::Same;
        }
        return LoadEnd::Loaded { bot: Arc::clone(&served.bot), hash };
    }
    let name = job.bot_ref.as_str();
    let loading = AssertUnwindSafe(async { loader.load(name, content).await });
    match loading.catch_unwind().await {
        Ok(Ok(bot)) => LoadEnd::Loaded { bot, hash },
        Ok(Err(failure)) => LoadEnd::Failed { message: format!("{file}: {}", failure.message), maybe_unfinished: true },
        Err(_) => LoadEnd::Failed {
            message: format!(
                "{file} could not be loaded: the loader failed by a fault of its own (see the server's log)."
            ),
            maybe_unfinished: false,
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
