#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::*;
use crate::bot::engine::Engines;

/// An executable that stands in for the compiler.
fn script(dir: &tempfile::TempDir, text: &str) -> Compiler {
    let path = dir.path().join("compiler");
    // Written aside and renamed: a file that some other test's child still has open for writing cannot be executed.
    let aside = dir.path().join("aside");
    std::fs::write(&aside, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    Compiler::Child(path)
}

async fn run(text: &str, timeout: Duration) -> Result<Vec<u8>, LoadError> {
    let dir = tempfile::tempdir().unwrap();
    script(&dir, text).compile(vec![7; 1_000_000], timeout).await
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_child_gets_the_component_and_gives_the_code() {
    let given = run("test \"$1\" = compile-component && exec /bin/cat", LONG).await.unwrap();
    assert_eq!(given, vec![7; 1_000_000]);
    assert_eq!(run("exec /usr/bin/env | /bin/grep -c AVERNEST; exit 0", LONG).await.unwrap(), b"0\n");
}

#[tokio::test]
async fn the_childs_words_are_passed_on_and_bounded() {
    let error = run("echo 'no good' >&2; exit 1", LONG).await.unwrap_err();
    assert_eq!(error, LoadError::Compile("no good".into()));
    let error = run("/usr/bin/head -c 100000 /dev/zero | /usr/bin/tr '\\0' x >&2; exit 1", LONG).await.unwrap_err();
    assert!(error.to_string().len() < 3_000, "{}", error.to_string().len());
    let error = run("kill -9 $$", LONG).await.unwrap_err().to_string();
    assert!(error.contains("signal") && error.contains("4 GiB"), "{error}");
    let missing = Compiler::Child("/nowhere".into()).compile(Vec::new(), LONG).await.unwrap_err().to_string();
    assert!(missing.contains("/nowhere"), "{missing}");
}

#[tokio::test]
async fn a_child_that_hangs_is_ended() {
    let began = Instant::now();
    let error = run("exec /bin/sleep 600", Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(error, LoadError::CompileTimeout(Duration::from_millis(100)));
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_the_child_does_loads_here() {
    let wasm = crate::bot::tests::bot("echo");
    let mut code = Vec::new();
    compile_stream(wasm.as_slice(), &mut code).unwrap();
    assert!(crate::bot::cache::load_compiled(&Engines::new(0).unwrap(), &code).is_ok());
    let error = compile_stream(&b"\0asm\x0d\0\x01\0\xff"[..], &mut code).unwrap_err();
    assert!(!error.is_empty());
}
