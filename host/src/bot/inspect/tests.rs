#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::bot::tests::bot;

fn error(bytes: &[u8]) -> String {
    inspect(bytes).unwrap_err().to_string()
}

#[test]
fn a_bot_is_read_whole() {
    let shape = inspect(&bot("probe")).unwrap();
    assert!(shape.exports.contains(&"avernest:bot/chat@0.1.0".to_owned()), "{shape:?}");
    assert!(shape.imports.contains(&"avernest:bot/session@0.1.0".to_owned()), "{shape:?}");
}

/// Where a component's outermost sections end: cut off there it is still well-formed.
fn section_ends(wasm: &[u8]) -> Vec<usize> {
    let mut ends = vec![8];
    while let Some(at) = ends.last().copied().filter(|at| *at < wasm.len()) {
        let mut reader = wasmparser::BinaryReader::new(&wasm[at..], at);
        reader.read_u8().unwrap();
        let size = reader.read_var_u32().unwrap() as usize;
        ends.push(reader.original_position() + size);
    }
    ends
}

#[test]
fn cut_off_anywhere_it_is_incomplete() {
    let wasm = bot("echo");
    let ends = section_ends(&wasm);
    assert_eq!(ends.last(), Some(&wasm.len()));
    for size in (0..wasm.len()).filter(|size| *size < 300 || size % 101 == 0).chain(ends.iter().map(|end| end - 1)) {
        let result = inspect(&wasm[..size]);
        if ends.contains(&size) {
            assert!(!matches!(result, Err(LoadError::NotWasm(_))), "at {size}: {result:?}");
        } else {
            assert!(result.as_ref().is_err_and(LoadError::is_incomplete), "at {size}: {result:?}");
        }
    }
}

#[test]
fn cut_off_between_sections_it_is_no_bot_or_lacks_only_notes() {
    let wasm = bot("echo");
    for end in section_ends(&wasm).into_iter().rev().skip(1) {
        if let Ok(shape) = inspect(&wasm[..end]) {
            let is_bot = crate::bot::world::check(&shape).is_ok();
            let rest_is_custom =
                section_ends(&wasm).iter().filter(|at| **at >= end).all(|at| wasm.get(*at).is_none_or(|id| *id == 0));
            assert!(!is_bot || rest_is_custom, "at {end}");
        }
    }
}

#[test]
fn other_files_are_named() {
    assert!(error(b"\x7fELF\x02").contains(".cwasm"));
    assert!(error(b"\x1f\x8b\x08").contains("unpack"));
    assert!(error(b"  (component)").contains("wasm-tools parse"));
    assert!(error(b"<!doctype html>").contains("web page"));
    assert!(error(b"#!/bin/sh").contains("00 61 73 6d"));
}

#[test]
fn a_core_module_is_told_from_half_of_one() {
    let module = wat::parse_str("(module (func (export \"f\") (result i32) i32.const 1))").unwrap();
    assert_eq!(inspect(&module), Err(LoadError::CoreModule));
    assert!(inspect(&module[..module.len() - 3]).unwrap_err().is_incomplete());
}

#[test]
fn an_invalid_component_is_told_with_its_place() {
    let wasm = wat::parse_str("(component (core module (func (result i32) i32.const 1)))").unwrap();
    let at = wasm.windows(2).rposition(|pair| pair == [0x41, 1]).unwrap();
    let mut bad = wasm.clone();
    // A constant of another type.
    bad[at] = 0x42;
    let error = error(&bad);
    assert!(error.contains("at byte") && error.contains("type mismatch"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0_usize..3) {
        let header: &[u8] = [&b""[..], b"\0asm\x0d\0\x01\0", b"\0asm\x01\0\0\0"][kind];
        let all = [header, &bytes].concat();
        if let Ok(shape) = inspect(&all) {
            prop_assert!(crate::bot::world::check(&shape).is_err());
        }
    }

    #[test]
    fn damaged_bots_never_panic(damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut wasm = bot("echo");
        for (index, byte) in damage {
            let at = index.index(wasm.len());
            wasm[at] = byte;
        }
        // Whatever it says, it says it in words.
        if let Err(error) = inspect(&wasm) {
            prop_assert!(error.to_string().ends_with('.'));
        }
    }
}
