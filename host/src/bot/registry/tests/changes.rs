//! New, changed, half-written and removed files.

use std::io::Write as _;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_served() {
    let folder = Folder::new(&[]).await;
    assert_eq!(folder.answer("echo"), "(unknown)");
    let mut changed = folder.registry.changed();
    changed.borrow_and_update();
    fs::write(folder.path("echo.wasm"), "good:one;").unwrap();
    folder.answers("echo", "one").await;
    assert!(changed.has_changed().unwrap());
    let status = serde_json::to_value(folder.status("echo")).unwrap();
    assert_eq!(status["state"], "serving");
    assert_eq!(status["provider_bot_ref"], "echo");
    assert_eq!(status["file"], "echo.wasm");
    // sha256sum of the content.
    assert_eq!(status["version"], "23ff9365d66e25da60ddc4cecd2ab055b892aba2451b773fbabb3852a6d73f21");
    assert!(status["last_error"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_takes_the_place_of_the_old_and_runs_keep_theirs() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    let run = folder.served("echo");
    fs::write(folder.path("echo.wasm"), "good:two;").unwrap();
    folder.answers("echo", "two").await;
    folder.put("echo.wasm", "good:three;");
    folder.answers("echo", "three").await;
    assert_eq!(folder.status("echo").reloads, 2);
    assert_eq!(run.bot.as_ref(), "one");
    assert_ne!(run.hash, folder.served("echo").hash);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_touched_file_is_not_loaded_again() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    let before = folder.served("echo");
    folder.put("echo.wasm", "good:one;");
    folder.looked().await;
    folder.looked().await;
    assert!(Arc::ptr_eq(&before, &folder.served("echo")));
    assert_eq!(folder.loader.loads.load(Ordering::SeqCst), 3, "the first load, and two of the looks");
}

#[tokio::test(flavor = "multi_thread")]
async fn turned_links_are_followed() {
    let folder = Folder::with(&[], |options| options.poll_interval = Duration::from_millis(100)).await;
    let content = |version: &str, text: &str| {
        fs::create_dir(folder.path(version)).unwrap();
        fs::write(folder.path(version).join("echo.wasm"), text).unwrap();
    };
    content("..v1", "good:one;");
    symlink("..v1", folder.path("..data"));
    symlink("..data/echo.wasm", folder.path("echo.wasm"));
    folder.answers("echo", "one").await;
    // As Kubernetes does it: a new folder, a new link, renamed over the old one.
    content("..v2", "good:two;");
    symlink("..v2", folder.path("..data_tmp"));
    fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
    folder.answers("echo", "two").await;
    // A link beside, to a file elsewhere, turned in one step.
    let elsewhere = folder.path("..v1").join("other");
    fs::write(&elsewhere, "good:three;").unwrap();
    symlink(&elsewhere, folder.path(".link"));
    fs::rename(folder.path(".link"), folder.path("echo.wasm")).unwrap();
    folder.answers("echo", "three").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_slowly_is_never_broken() {
    for pause in [20, 150] {
        // The pauses are shorter than the settle time, and longer.
        let folder = Folder::with(&[("echo.wasm", "good:old;")], |options| {
            options.settle = Duration::from_millis(50);
            options.young = Duration::from_secs(5);
        })
        .await;
        let content = format!("good:{};", "x".repeat(40));
        let (name, chunks) = (content[5..45].to_owned(), 2000 / pause);
        let (old, new) = (folder.path("echo.wasm"), folder.path("new.wasm"));
        let writer = std::thread::spawn(move || {
            let (mut old, mut new) = (fs::File::create(old).unwrap(), fs::File::create(new).unwrap());
            for chunk in content.as_bytes().chunks(content.len().div_ceil(chunks)) {
                old.write_all(chunk).unwrap();
                new.write_all(chunk).unwrap();
                // The pace of what is tested, not a way to wait for it.
                std::thread::sleep(Duration::from_millis(pause as u64));
            }
        });
        let mut seen = 0;
        folder
            .eventually("the whole file", || {
                seen += 1;
                let (old, new) = (folder.answer("echo"), folder.answer("new"));
                assert!(old == "old" || old == name, "while it is written: {old}");
                assert!(new == "(unknown)" || new == "(loading)" || new == name, "while it is written: {new}");
                assert!(folder.registry.statuses().iter().all(|status| status.last_error.is_none()));
                old == name && new == name
            })
            .await;
        assert!(seen > 10);
        writer.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_file_is_broken_only_when_it_is_no_longer_young() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    fs::write(folder.path("echo.wasm"), "good:tw").unwrap();
    let written = Instant::now();
    let error = folder.error("echo").await;
    assert!(written.elapsed() >= Duration::from_millis(550), "after {:?}", written.elapsed());
    assert_eq!(error, "echo.wasm: it ends too early");
    assert_eq!(folder.answer("echo"), "one");
    assert!(folder.status("echo").newer_refused);
    fs::write(folder.path("echo.wasm"), "good:two;").unwrap();
    folder.answers("echo", "two").await;
    assert!(!folder.status("echo").newer_refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_bot_is_broken_and_the_last_good_one_serves() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    for (name, content) in [("echo.wasm", "bad:x"), ("new.wasm", "what?")] {
        folder.put(name, content);
        age(&folder.path(name));
    }
    assert_eq!(folder.error("echo").await, "echo.wasm: it is no bot");
    assert_eq!(folder.error("new").await, "new.wasm: it is no bot");
    assert_eq!((folder.answer("echo"), folder.answer("new")), ("one".into(), "(broken)".into()));
    // Back to what is served: no load, no error.
    folder.put("echo.wasm", "good:one;");
    folder.eventually("the error to go", || folder.status("echo").last_error.is_none()).await;
    assert_eq!(folder.status("echo").reloads, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loader_that_panics_is_an_error_of_that_file_alone() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    folder.put("echo.wasm", "panic");
    assert!(folder.error("echo").await.contains("fault of its own"));
    folder.put("echo.wasm", "good:two;");
    folder.answers("echo", "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_is_gone_and_back_is_served_again() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    let run = folder.served("echo");
    fs::remove_file(folder.path("echo.wasm")).unwrap();
    folder.answers("echo", "(unknown)").await;
    assert!(folder.registry.statuses().is_empty());
    assert_eq!(run.bot.as_ref(), "one");
    folder.put("echo.wasm", "good:one;");
    folder.answers("echo", "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_renames_end_in_the_last_content() {
    let folder = Folder::new(&[("echo.wasm", "good:0;")]).await;
    for n in 1..=5000 {
        folder.put("echo.wasm", &format!("good:{n};"));
        if n % 100 == 0 {
            assert_ne!(folder.answer("echo"), "(unknown)");
        }
    }
    folder.answers("echo", "5000").await;
    folder.looked().await;
    assert_eq!(folder.answer("echo"), "5000");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_events_changes_are_found_by_looking() {
    let folder = Folder::with(&[("echo.wasm", "good:one;")], |options| {
        options.events = false;
        options.poll_interval = Duration::from_millis(50);
    })
    .await;
    folder.put("echo.wasm", "good:two;");
    folder.answers("echo", "two").await;
    fs::remove_file(folder.path("echo.wasm")).unwrap();
    folder.answers("echo", "(unknown)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_events_changes_are_found_without_looking() {
    let folder = Folder::with(&[], |options| options.poll_interval = Duration::from_secs(3600)).await;
    folder.put("echo.wasm", "good:one;");
    folder.answers("echo", "one").await;
    fs::write(folder.path("echo.wasm"), "good:two;").unwrap();
    folder.answers("echo", "two").await;
    fs::remove_file(folder.path("echo.wasm")).unwrap();
    folder.answers("echo", "(unknown)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_while_it_loads_is_loaded_again() {
    let folder = Folder::new(&[]).await;
    folder.put("echo.wasm", "slow:one;");
    folder.eventually("the load", || folder.loader.at_once.load(Ordering::SeqCst) == 1).await;
    assert_eq!(folder.answer("echo"), "(loading)");
    folder.put("echo.wasm", "good:two;");
    folder.looked().await;
    assert_eq!(folder.answer("echo"), "(loading)", "one load at a time");
    folder.loader.gate.add_permits(1);
    folder.answers("echo", "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_removed_while_it_loads_is_not_served() {
    let folder = Folder::new(&[("stays.wasm", "good:stays;")]).await;
    folder.put("echo.wasm", "slow:one;");
    folder.eventually("the load", || folder.loader.at_once.load(Ordering::SeqCst) == 1).await;
    fs::remove_file(folder.path("echo.wasm")).unwrap();
    folder.answers("echo", "(unknown)").await;
    folder.loader.gate.add_permits(1);
    folder.eventually("the load's end", || folder.loader.at_once.load(Ordering::SeqCst) == 0).await;
    folder.looked().await;
    assert_eq!(folder.answer("echo"), "(unknown)");
    assert_eq!(folder.answer("stays"), "stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_load_at_once_and_no_more() {
    let folder = Folder::new(&[]).await;
    for n in 0..6 {
        folder.put(&format!("b{n}.wasm"), &format!("slow:{n};"));
    }
    folder.eventually("two loads", || folder.loader.at_once.load(Ordering::SeqCst) == 2).await;
    folder.loader.gate.add_permits(6);
    for n in 0..6 {
        folder.answers(&format!("b{n}"), &n.to_string()).await;
    }
    assert_eq!(folder.loader.most_at_once.load(Ordering::SeqCst), 2);
}
