//! Which files become bots, and what is said of the others.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn runtime(options: RuntimeOptions) -> Runtime {
    Runtime::new(options, &Handle::current()).unwrap()
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

async fn refusal(wasm: Vec<u8>) -> LoadError {
    runtime(options()).prepare(wasm).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_are_loaded_once() {
    let runtime = runtime(options());
    let (first, second) = tokio::join!(runtime.prepare(bot("echo")), runtime.prepare(bot("echo")));
    assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
    let other = runtime.prepare(bot("probe")).await.unwrap();
    assert_eq!((other.hash.len(), other.size), (64, bot("probe").len()));
    assert!(other.compile_time.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_bot_is_refused_with_what_to_do() {
    assert!(matches!(refusal(b"hello".to_vec()).await, LoadError::NotWasm(_)));
    assert!(refusal(Vec::new()).await.is_incomplete());
    let core = refusal(component("(module)")).await;
    assert_eq!(core, LoadError::CoreModule);
    let nothing = refusal(component("(component)")).await;
    assert!(nothing.to_string().contains("It exports nothing."), "{nothing}");
    let import = component(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance))
            (instance $chat)
            (export "avernest:bot/chat@0.1.0" (instance $chat)))"#,
    );
    let error = refusal(import).await;
    assert!(matches!(&error, LoadError::UnknownImport(text) if text.contains("wasi:http/types@0.2.0")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_do_not_fit_are_refused() {
    let empty = component(r#"(component (instance $chat) (export "avernest:bot/chat@0.1.0" (instance $chat)))"#);
    let error = refusal(empty).await;
    assert!(error.to_string().contains("send"), "{error}");
    let import = component(
        r#"(component
            (import "avernest:bot/progress@0.1.0" (instance (export "delta" (func (param "text" u32)))))
            (instance $chat)
            (export "avernest:bot/chat@0.1.0" (instance $chat)))"#,
    );
    let error = refusal(import).await;
    assert!(matches!(&error, LoadError::UnknownImport(text) if text.contains("progress")), "{error}");
    let wrong_function = component(
        r#"(component
            (core module $m (func (export "f") (result i32) i32.const 1))
            (core instance $i (instantiate $m))
            (func $f (result u32) (canon lift (core func $i "f")))
            (instance $chat (export "send" (func $f)) (export "inject" (func $f)))
            (export "avernest:bot/chat@0.1.0" (instance $chat)))"#,
    );
    let error = refusal(wrong_function).await;
    assert!(matches!(error, LoadError::Start(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn compiled_code_is_kept_and_trusted_only_whole() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let ledger = Arc::new(MemoryLedger::default());
    let with = |ledger: &Arc<MemoryLedger>| {
        runtime(RuntimeOptions { cache_dir: Some(cache.clone()), ledger: ledger.clone(), ..options() })
    };
    let compiled =
        async |ledger: &Arc<MemoryLedger>| with(ledger).prepare(bot("echo")).await.unwrap().compile_time.is_some();
    assert!(compiled(&ledger).await, "the first time");
    assert!(!compiled(&ledger).await, "a hit");
    assert_eq!(std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    let file = only_file(&cache);

    let whole = std::fs::read(&file).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for bad in [changed, whole[..whole.len() / 2].to_vec(), Vec::new(), b"something else".to_vec()] {
        std::fs::write(&file, bad).unwrap();
        assert!(compiled(&ledger).await, "a damaged file");
        assert!(!compiled(&ledger).await, "written anew");
    }
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(dir.path(), &file).unwrap();
    assert!(compiled(&ledger).await, "a link to elsewhere");
    // A file that this host did not write, however good it looks.
    assert!(compiled(&Arc::new(MemoryLedger::default())).await, "a foreign file");
    assert_eq!(only_file(&cache), file);
}

fn only_file(dir: &Path) -> PathBuf {
    let files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}
