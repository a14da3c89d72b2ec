//! Opening, and being refused.

use std::io;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn refusal(dir: &Path) -> String {
    SledStore::open(OpenOptions::new(dir)).unwrap_err().to_string()
}

#[test]
fn the_directory_is_made_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a/b");
    let store = open(&deep);
    for part in ["a", "a/b", "a/b/sled"] {
        let mode = std::fs::metadata(dir.path().join(part)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{part}");
    }
    assert!(wait(store.stats()).disk_bytes > 0);
}

#[test]
fn a_second_open_is_refused_until_the_first_is_closed() {
    let (dir, store) = temp();
    assert_eq!(
        refusal(dir.path()),
        format!(
            "the data directory {:?} is in use by another avernest: stop that one first, or give this one a data \
             directory of its own",
            dir.path()
        )
    );
    wait(store.put_artifact("k", [7; 32]));
    wait(store.close());
    let again = open(dir.path());
    assert_eq!(wait(again.artifact("k")), Some([7; 32]));
    assert_eq!(wait(again.artifact("l")), None);
    assert!(matches!(try_wait(store.stats()), Err(StoreError::Closed)));
    assert!(matches!(try_wait(store.put_artifact("k", [8; 32])), Err(StoreError::Closed)));
    assert!(matches!(try_wait(store.close()), Ok(())));
}

#[test]
fn opens_again_and_again_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..20u8 {
        let store = open(dir.path());
        wait(store.put_artifact(&n.to_string(), [n; 32]));
        wait(store.close());
    }
    let store = open(dir.path());
    for n in 0..20u8 {
        assert_eq!(wait(store.artifact(&n.to_string())), Some([n; 32]));
    }
}

#[test]
fn what_is_no_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let sentence = refusal(&path);
        assert_eq!(
            sentence,
            format!("the data directory {path:?} is not a directory: move away what stands there, or name another")
        );
    }
}

#[test]
fn every_other_trouble_with_the_directory_has_its_sentence() {
    // Root may write anywhere, so these are made rather than met.
    let dir = Path::new("/d");
    let said = |kind: io::ErrorKind| OpenError::directory(dir, &kind.into()).to_string();
    assert!(said(io::ErrorKind::PermissionDenied).contains("\"/d\" may not be read and written by this user"));
    assert!(said(io::ErrorKind::ReadOnlyFilesystem).contains("\"/d\" is on a file system that is mounted read-only"));
    assert!(said(io::ErrorKind::StorageFull).contains("\"/d\" cannot be used: no storage space"));
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let (dir, store) = temp();
    wait(store.queue.write(|engine| {
        engine.db().insert(keys::FORMAT, b"7").unwrap();
        Ok(())
    }));
    wait(store.close());
    let sentence = refusal(dir.path());
    assert!(sentence.contains("has format version 7, and this avernest knows versions up to 1"), "{sentence}");
}

#[test]
fn what_another_program_wrote_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = ::sled::open(dir.path().join("sled")).unwrap();
    db.insert("k", "v").unwrap();
    drop(db);
    let sentence = refusal(dir.path());
    assert!(sentence.contains("it was not written by avernest"), "{sentence}");
}

#[test]
fn files_that_are_no_database_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sled")).unwrap();
    std::fs::write(dir.path().join("sled/conf"), "nonsense, and more of it").unwrap();
    let sentence = refusal(dir.path());
    assert!(sentence.contains("cannot be opened"), "{sentence}");
    // And the lock is free again.
    assert_eq!(refusal(dir.path()), sentence);
}
