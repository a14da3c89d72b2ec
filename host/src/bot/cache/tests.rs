#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn the_key_names_the_component_and_the_engine() {
    let engine = crate::bot::engine::new_engine().unwrap();
    let first = key(&engine, &hash_of(b"a"));
    assert_eq!(first, key(&crate::bot::engine::new_engine().unwrap(), &hash_of(b"a")));
    assert_ne!(first, key(&engine, &hash_of(b"b")));
    assert_ne!(first, key(&Engine::default(), &hash_of(b"a")));
    assert_eq!(first.len(), 64 + 1 + 16);
}

#[test]
fn hashes_are_those_of_sha256() {
    assert_eq!(hash_of(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn only_the_noted_bytes_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.cwasm");
    write_whole(&path, b"code").unwrap();
    assert_eq!(read_trusted(&path, digest_of(b"code")).unwrap(), b"code");
    assert!(read_trusted(&path, digest_of(b"other")).is_err());
    assert!(read_trusted(dir.path(), digest_of(b"")).is_err());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(read_trusted(&link, digest_of(b"code")).is_err());
}
