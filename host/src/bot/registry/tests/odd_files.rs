//! Files that are no files, cannot be read, or have no name for a bot.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_does_not_block_and_is_broken() {
    let folder = Folder::new(&[]).await;
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path("x.wasm"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path("y.wasm")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path("echo.toml"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(folder.error("x").await, "x.wasm is a named pipe, not a file.");
    assert_eq!(folder.error("y").await, "y.wasm is a socket, not a file.");
    assert_eq!(folder.error("echo").await, "echo.toml is a named pipe, not a file.");
    folder.looked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_and_hidden_files_are_nobodys() {
    let folder = Folder::new(&[(".a.wasm", "good:a;"), ("b.wasm.part", "good:b;"), ("notes.txt", "x")]).await;
    fs::create_dir(folder.path("x.wasm")).unwrap();
    folder.looked().await;
    folder.eventually("nothing", || folder.registry.statuses().is_empty()).await;
    assert!(folder.registry.problems().is_empty());
    // In the place of a bot it is the bot's end.
    folder.put("echo.wasm", "good:one;");
    folder.answers("echo", "one").await;
    fs::remove_file(folder.path("echo.wasm")).unwrap();
    fs::create_dir(folder.path("echo.wasm")).unwrap();
    folder.answers("echo", "(unknown)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_to_nothing_and_in_circles_are_broken() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    symlink("nothing", folder.path("x.wasm"));
    symlink("y.wasm", folder.path("y.wasm"));
    assert_eq!(folder.error("x").await, "x.wasm is a link to a file that does not exist.");
    let error = folder.error("y").await;
    assert!(error.starts_with("y.wasm cannot be looked at: "), "{error}");
    symlink("nothing", folder.path(".link"));
    fs::rename(folder.path(".link"), folder.path("echo.wasm")).unwrap();
    folder.error("echo").await;
    assert_eq!(folder.answer("echo"), "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_too_large_is_broken() {
    let folder = Folder::with(&[("echo.wasm", "good:one;")], |options| options.max_wasm_bytes = 9).await;
    folder.put("echo.wasm", "good:three;");
    assert_eq!(folder.error("echo").await, "echo.wasm has 11 bytes, but 9 is the most.");
    assert_eq!(folder.answer("echo"), "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_may_not_be_read_is_broken() {
    if rustix::process::geteuid().is_root() {
        // Root may read everything; `read.rs` tests a read that fails.
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    fs::set_permissions(folder.path("echo.wasm"), fs::Permissions::from_mode(0o000)).unwrap();
    assert!(folder.error("echo").await.starts_with("echo.wasm cannot be read: "));
    assert_eq!(folder.answer("echo"), "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_no_reference_is_a_problem_until_a_manifest_gives_one() {
    let folder = Folder::new(&[("my bot.wasm", "good:one;")]).await;
    let problem = folder.problem("my bot.wasm").await;
    assert!(problem.contains("rename the file, or set `ref` in my bot.toml"), "{problem}");
    assert!(folder.registry.statuses().is_empty());
    folder.put("my bot.toml", "ref = \"my-bot\"");
    folder.answers("my-bot", "one").await;
    assert!(folder.registry.problems().is_empty());
    folder.put("my other bot.toml", "ref =");
    age(&folder.path("my other bot.toml"));
    folder.problem("my other bot.toml").await;
    fs::remove_file(folder.path("my other bot.toml")).unwrap();
    folder.eventually("it to go", || folder.registry.problems().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_no_text_is_broken() {
    let folder = Folder::new(&[("echo.wasm", "good:one;")]).await;
    fs::write(folder.path("echo.toml"), [0xff, 0xfe]).unwrap();
    assert_eq!(folder.error("echo").await, "echo.toml is not UTF-8 text.");
}
