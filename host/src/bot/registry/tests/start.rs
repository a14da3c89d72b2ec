//! The start, the folder itself, and the end.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_at_the_start_is_tried_before_the_first_scan_ends() {
    let mut files: Vec<(String, String)> = (0..20).map(|n| (format!("b{n}.wasm"), format!("good:{n};"))).collect();
    files.push(("bad.wasm".into(), "bad:x".into()));
    files.push(("short.wasm".into(), "good:sho".into()));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
    let folder = Folder::with(&files, |options| options.young = Duration::from_secs(60)).await;
    for n in 0..20 {
        assert_eq!(folder.answer(&format!("b{n}")), n.to_string());
    }
    assert_eq!((folder.answer("bad"), folder.answer("short")), ("(loading)".into(), "(loading)".into()));
    assert_eq!(folder.answer("none"), "(unknown)");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_scan_nothing_is_unknown() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("echo.wasm"), "slow:one;").unwrap();
    let loader = Arc::new(FakeLoader {
        gate: Semaphore::new(0),
        loads: AtomicUsize::new(0),
        at_once: AtomicUsize::new(0),
        most_at_once: AtomicUsize::new(0),
    });
    let options = RegistryOptions::new(temp.path().to_owned());
    let registry = Registry::start(options, Arc::new(Arc::clone(&loader)), &Handle::current());
    assert!(matches!(registry.lookup(&BotRef::parse("echo").unwrap()), Lookup::Loading));
    assert!(matches!(registry.lookup(&BotRef::parse("other").unwrap()), Lookup::Loading));
    loader.gate.add_permits(1);
    tokio::time::timeout(LONG, registry.first_scan()).await.unwrap();
    assert!(matches!(registry.lookup(&BotRef::parse("echo").unwrap()), Lookup::Serving(_)));
    assert!(matches!(registry.lookup(&BotRef::parse("other").unwrap()), Lookup::Unknown));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_folder_is_made() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("a/plugins");
    let folder = Folder::at(temp, dir, |_| {}).await;
    assert_eq!(fs::metadata(&folder.dir).unwrap().permissions().mode() & 0o700, 0o700);
    folder.put("echo.wasm", "good:one;");
    folder.answers("echo", "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_goes_away_leaves_its_bots_serving() {
    let folder = Folder::with(&[("echo.wasm", "good:one;"), ("other.wasm", "good:other;")], |options| {
        options.poll_interval = Duration::from_millis(50);
    })
    .await;
    let away = folder.dir.with_file_name("away");
    fs::rename(&folder.dir, &away).unwrap();
    let path = folder.dir.display().to_string();
    let problem = folder.problem(&path).await;
    assert!(problem.ends_with("The bots that were loaded go on serving."), "{problem}");
    assert_eq!(folder.answer("echo"), "one");
    // Another folder in its place is watched, and what it lacks is gone.
    fs::create_dir(&folder.dir).unwrap();
    folder.put("echo.wasm", "good:two;");
    folder.answers("echo", "two").await;
    folder.answers("other", "(unknown)").await;
    assert!(folder.registry.problems().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_follow_the_folder_that_a_link_is_turned_to() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().to_owned();
    for version in ["one", "two"] {
        fs::create_dir(root.join(version)).unwrap();
        fs::write(root.join(version).join("echo.wasm"), format!("good:{version};")).unwrap();
    }
    symlink("one", root.join("plugins"));
    let folder = Folder::at(temp, root.join("plugins"), |_| {}).await;
    assert_eq!(folder.answer("echo"), "one");
    symlink("two", root.join("next"));
    fs::rename(root.join("next"), root.join("plugins")).unwrap();
    folder.answers("echo", "two").await;
    fs::write(root.join("two/echo.wasm"), "good:three;").unwrap();
    folder.answers("echo", "three").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_shutdown_the_bots_stay_and_nothing_is_loaded() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    tokio::time::timeout(LONG, folder.registry.shutdown()).await.unwrap();
    let watchers = Arc::strong_count(&folder.loader);
    assert_eq!(watchers, 1, "the watcher and its loads are gone, and the loader with them");
    assert_eq!(folder.answer("echo"), "one");
    tokio::time::timeout(LONG, folder.registry.shutdown()).await.expect("a second one changes nothing");
}
