//! Compiled components on disk.
//!
//! Loading compiled code is as good as running it, so a file is loaded only if it is, byte for byte, one that this
//! host wrote: its digest is kept elsewhere, in a [`DigestLedger`]. Whatever does not fit is a miss.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::engine::Engines;

/// A digest of SHA-256.
pub type ArtifactDigest = [u8; 32];

/// A future of a [`DigestLedger`]; an error is the ledger's own sentence.
pub type LedgerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Remembers what this host has compiled, at a place that whoever can write the cache directory cannot write.
pub trait DigestLedger: Send + Sync {
    /// The digest of the file with this cache key.
    fn get(&self, key: &str) -> LedgerFuture<'_, Option<ArtifactDigest>>;
    /// Remembers it.
    fn put(&self, key: &str, digest: ArtifactDigest) -> LedgerFuture<'_, ()>;
}

/// A ledger that lasts as long as the process: for tests and tools.
#[derive(Debug, Default)]
pub struct MemoryLedger(Mutex<HashMap<String, ArtifactDigest>>);

impl DigestLedger for MemoryLedger {
    fn get(&self, key: &str) -> LedgerFuture<'_, Option<ArtifactDigest>> {
        let digest = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        Box::pin(async move { Ok(digest) })
    }

    fn put(&self, key: &str, digest: ArtifactDigest) -> LedgerFuture<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), digest);
        Box::pin(async { Ok(()) })
    }
}

/// The directory of compiled components.
#[derive(Clone)]
pub(super) struct Cache {
    dir: PathBuf,
    ledger: Arc<dyn DigestLedger>,
}

impl Cache {
    /// Makes the directory, for this user only.
    pub(super) fn open(dir: PathBuf, ledger: Arc<dyn DigestLedger>) -> Result<Self, String> {
        let told = |error| format!("the compile cache {} cannot be used: {error}", dir.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(told)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(told)?;
        Ok(Self { dir, ledger })
    }

    /// The component of this key, if there is one that can be trusted. Why not is logged, for it is worth a look.
    pub(super) async fn load(&self, engines: &Engines, key: &str) -> Option<Component> {
        let digest = match self.ledger.get(key).await {
            Ok(digest) => digest?,
            Err(error) => {
                tracing::warn!(key, error = ?error, "the compile cache's ledger cannot be read");
                return None;
            }
        };
        let (engines, path) = (engines.clone(), self.path(key));
        tokio::task::spawn_blocking(move || match read_trusted(&path, digest) {
            Ok(bytes) => match load_compiled(&engines, &bytes) {
                Ok(component) => Some(component),
                Err(error) => {
                    tracing::warn!(path = ?path, error = ?format!("{error:#}"), "a compiled component does not load");
                    None
                }
            },
            Err(reason) => {
                tracing::warn!(path = ?path, reason = ?reason, "a compiled component is not used");
                None
            }
        })
        .await
        .ok()
        .flatten()
    }

    /// Keeps a compiled component.
    pub(super) async fn store(&self, key: &str, code: Arc<Vec<u8>>) -> Result<(), String> {
        let digest = digest_of(&code);
        let path = self.path(key);
        let written = tokio::task::spawn_blocking(move || write_whole(&path, &code)).await;
        written.map_err(|error| error.to_string())?.map_err(|error| format!("{}: {error}", self.dir.display()))?;
        self.ledger.put(key, digest).await
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.cwasm"))
    }
}

/// The cache key: the component's digest, and that of everything in this host that shapes compiled code.
pub(super) fn key(engine: &Engine, wasm_hash: &str) -> String {
    let mut hasher = DigestHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let compatibility = hex(&hasher.0.finalize());
    format!("{wasm_hash}-{}", compatibility.get(..16).unwrap_or_default())
}

/// SHA-256 in lower-case hexadecimal.
pub(super) fn hash_of(bytes: &[u8]) -> String {
    hex(&digest_of(bytes))
}

/// A component of code that was compiled here: in the pool if it can have a place there.
pub(super) fn load_compiled(engines: &Engines, code: &[u8]) -> wasmtime::Result<Component> {
    let pooled = engines.pooled.as_ref().and_then(|engine| deserialize(engine, code).ok());
    pooled.map_or_else(|| deserialize(&engines.on_demand, code), Ok)
}

fn digest_of(bytes: &[u8]) -> ArtifactDigest {
    Sha256::digest(bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the file into memory first: what is checked is what is loaded, whoever writes to the file meanwhile.
fn read_trusted(path: &Path, digest: ArtifactDigest) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    let file = options.open(path).map_err(|error| error.to_string())?;
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a file".into());
    }
    let mut file = file;
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if digest_of(&bytes) == digest { Ok(bytes) } else { Err("it is not what this host wrote there".into()) }
}

/// Written aside, on disk, then renamed: there is never half a file under the name.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().ok_or_else(|| std::io::Error::other("there is no directory"))?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// The one place where bytes become code.
#[allow(unsafe_code)]
fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: wasmtime trusts these bytes. They come either straight from this host's own compiler, or from a file
    // whose digest is the one that was noted when this host's compiler wrote it; they are in memory, so nobody
    // changes them between that check and this line. wasmtime itself checks that version and settings fit.
    unsafe { Component::deserialize(engine, code) }
}

/// Takes what is hashed into SHA-256: the standard hasher is neither stable nor wide enough for a file's name.
struct DigestHasher(Sha256);

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests;
