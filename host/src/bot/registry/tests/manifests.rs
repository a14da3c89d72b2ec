//! Manifests beside components, and references that two files want.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_is_added_changed_broken_and_removed() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    folder.put("echo.toml", "[limits]\nmemory_mb = 3");
    folder.eventually("the limit", || folder.served("echo").limits.memory_bytes == 3 << 20).await;
    let with_manifest = folder.served("echo");
    folder.put("echo.toml", "[limits]\nmemory_mb = 4\n[runs]\nrerun_after_crash = true");
    folder.eventually("the limit", || folder.served("echo").limits.memory_bytes == 4 << 20).await;
    assert!(folder.served("echo").manifest.rerun_after_crash);
    assert!(Arc::ptr_eq(&with_manifest.bot, &folder.served("echo").bot), "the component is the same and stays loaded");

    folder.put("echo.toml", "[limits]\nmemry_mb = 5");
    let error = folder.error("echo").await;
    assert_eq!(error, "echo.toml, line 2: unknown key \"memry_mb\"; did you mean `memory_mb`?");
    assert_eq!(folder.served("echo").limits.memory_bytes, 4 << 20);
    assert!(folder.status("echo").newer_refused);

    fs::remove_file(folder.path("echo.toml")).unwrap();
    let default = Limits::default().memory_bytes;
    folder.eventually("the default", || folder.served("echo").limits.memory_bytes == default).await;
    assert!(folder.status("echo").last_error.is_none());
    assert_eq!(folder.loader.loads.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_moves_with_its_manifest() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    folder.put("echo.toml", "ref = \"parrot\"");
    folder.answers("parrot", "one").await;
    assert_eq!(folder.answer("echo"), "(unknown)");
    fs::remove_file(folder.path("echo.toml")).unwrap();
    folder.answers("echo", "one").await;
    assert_eq!(folder.answer("parrot"), "(unknown)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_a_broken_build_leaves_the_old_reference_serving() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    folder.put("other.bin", "bad:x");
    fs::rename(folder.path("other.bin"), folder.path("other.wasm")).unwrap();
    folder.put("echo.toml", "ref = \"parrot\"\ncomponent = \"other.wasm\"");
    age(&folder.path("other.wasm"));
    age(&folder.path("echo.toml"));
    assert_eq!(folder.error("parrot").await, "other.wasm: it is no bot");
    assert_eq!((folder.answer("echo"), folder.answer("parrot")), ("one".into(), "(broken)".into()));
    assert!(folder.status("echo").newer_refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_references_share_a_component() {
    let folder = Folder::with(
        &[
            ("de.toml", "component = \"shared/echo.wasm\""),
            ("en.toml", "ref = \"english\"\ncomponent = \"shared/echo.wasm\""),
        ],
        |options| {
            options.poll_interval = Duration::from_millis(50);
            options.young = Duration::from_secs(3);
        },
    )
    .await;
    assert_eq!(folder.answer("de"), "(loading)", "the manifest is young, its component may be on its way");
    let error = folder.error("english").await;
    assert!(error.starts_with("en.toml needs the component shared/echo.wasm"), "{error}");
    fs::create_dir(folder.path("shared")).unwrap();
    folder.put("shared/echo.wasm", "good:one;");
    folder.answers("de", "one").await;
    folder.answers("english", "one").await;
    assert_eq!(folder.status("english").file, "en.toml");
    folder.put("shared/echo.wasm", "good:two;");
    folder.answers("de", "two").await;
    folder.answers("english", "two").await;
    // A component that is taken away ends its bots.
    fs::remove_file(folder.path("shared/echo.wasm")).unwrap();
    folder.answers("de", "(broken)").await;
    folder.answers("english", "(broken)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_components_are_there_after_the_first_scan() {
    let folder = Folder::new(&[("de.toml", "component = \"echo.wasm\""), ("echo.wasm", "good:one;")]).await;
    assert_eq!((folder.answer("de"), folder.answer("echo")), ("one".into(), "one".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_outside_the_folder_is_refused() {
    let folder = Folder::new(&[]).await;
    fs::write(folder.dir.parent().unwrap().join("out.wasm"), "good:out;").unwrap();
    folder.put("echo.toml", "\ncomponent = \"../out.wasm\"");
    age(&folder.path("echo.toml"));
    let error = folder.error("echo").await;
    assert!(error.starts_with("echo.toml, line 2: `component` is \"../out.wasm\""), "{error}");
    assert_eq!(folder.answer("echo"), "(broken)");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_start_the_first_by_name_has_the_reference() {
    let files = [
        ("c.wasm", "good:c;"),
        ("c.toml", "ref = \"echo\""),
        ("a.wasm", "good:a;"),
        ("a.toml", "ref = \"echo\""),
        ("b.wasm", "good:b;"),
        ("b.toml", "ref = \"echo\""),
    ];
    let folder = Folder::new(&files).await;
    assert_eq!(folder.answer("echo"), "a");
    for (file, manifest) in [("b.wasm", "b.toml"), ("c.wasm", "c.toml")] {
        let problem = folder.problem(file).await;
        assert!(problem.starts_with(&format!("a.toml and {manifest} both give the bot reference echo")), "{problem}");
    }
    assert_eq!(folder.registry.statuses().len(), 1);
    // When it goes, the next by name has it.
    fs::remove_file(folder.path("a.wasm")).unwrap();
    fs::remove_file(folder.path("a.toml")).unwrap();
    folder.answers("echo", "b").await;
    assert!(folder.problem("c.wasm").await.starts_with("b.toml and c.toml"));
    assert_eq!(folder.registry.problems().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_that_serves_keeps_its_reference() {
    let folder = Folder::new(&[("echo.wasm", "good:echo;"), ("other.wasm", "good:other;")]).await;
    folder.put("a.wasm", "good:a;");
    folder.put("a.toml", "ref = \"echo\"");
    folder.put("other.toml", "ref = \"echo\"");
    let problem = folder.problem("a.wasm").await;
    assert!(problem.starts_with("echo.wasm and a.toml both give the bot reference echo"), "{problem}");
    assert!(folder.error("other").await.starts_with("echo.wasm and other.toml both"));
    assert_eq!((folder.answer("echo"), folder.answer("other")), ("echo".into(), "other".into()));
    assert_eq!(folder.answer("a"), "(unknown)");
    // It goes on serving through a broken build of its own.
    folder.put("echo.wasm", "bad:x");
    folder.error("echo").await;
    assert_eq!(folder.answer("echo"), "echo");
    // A reference of its own ends the quarrel.
    folder.put("a.toml", "ref = \"aa\"");
    folder.answers("aa", "a").await;
    assert!(folder.registry.problems().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_files_may_change_places() {
    let files = [("a.wasm", "good:a;"), ("b.wasm", "good:b;"), ("a.toml", "ref = \"x\""), ("b.toml", "ref = \"y\"")];
    let folder = Folder::new(&files).await;
    assert_eq!((folder.answer("x"), folder.answer("y")), ("a".into(), "b".into()));
    folder.put("a.toml", "ref = \"y\"");
    let problem = folder.error("x").await;
    assert!(problem.starts_with("b.toml and a.toml both give the bot reference y"), "{problem}");
    assert_eq!((folder.answer("x"), folder.answer("y")), ("a".into(), "b".into()));
    folder.put("b.toml", "ref = \"x\"");
    folder.answers("x", "b").await;
    folder.answers("y", "a").await;
    assert!(folder.registry.problems().is_empty());
    assert!(folder.registry.statuses().iter().all(|status| status.last_error.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_that_is_given_up_is_served_until_another_takes_it() {
    let folder = Folder::new(&[("echo.wasm", "good:old;")]).await;
    folder.put("new.wasm", "bad:x");
    age(&folder.path("new.wasm"));
    folder.put("echo.toml", "ref = \"parrot\"\ncomponent = \"new.wasm\"");
    folder.eventually("the refusal", || folder.status("echo").newer_refused).await;
    folder.put("third.toml", "ref = \"echo\"\ncomponent = \"none.wasm\"");
    age(&folder.path("third.toml"));
    let problem = folder.problem("third.toml").await;
    assert!(
        problem.contains("needs the component none.wasm"),
        "a claimant that cannot be served takes nothing: {problem}"
    );
    assert_eq!(folder.answer("echo"), "old");
    folder.put("none.wasm", "good:third;");
    folder.answers("echo", "third").await;
    folder.answers("parrot", "(broken)").await;
    assert!(folder.registry.problems().is_empty());
}
