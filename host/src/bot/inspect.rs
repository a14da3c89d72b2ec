//! Looks at the bytes of a bot before anything is compiled: is it a whole, valid component of the right world?

use wasmparser::{Chunk, Encoding, Parser, Payload, Validator, WasmFeatures};

use super::load_error::LoadError;

const MAGIC: &[u8] = b"\0asm";

/// What a component asks for and offers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
}

/// Checks everything that can be said without compiling.
pub(super) fn inspect(wasm: &[u8]) -> Result<Shape, LoadError> {
    if !wasm.starts_with(MAGIC) {
        return Err(if MAGIC.starts_with(wasm) {
            LoadError::Incomplete { size: wasm.len() }
        } else {
            LoadError::NotWasm(looks_like(wasm).to_owned())
        });
    }
    let shape = read_whole(wasm)?;
    let mut features = WasmFeatures::WASM3 | WasmFeatures::COMPONENT_MODEL;
    // What this build of wasmtime leaves out.
    features.remove(WasmFeatures::GC_TYPES | WasmFeatures::EXCEPTIONS | WasmFeatures::THREADS);
    Validator::new_with_features(features)
        .validate_all(wasm)
        .map_err(|error| LoadError::Invalid { offset: error.offset(), reason: error.message().to_owned() })?;
    Ok(shape)
}

/// Walks over all of it, nested modules too. Ends early with `Incomplete` where bytes are missing.
fn read_whole(wasm: &[u8]) -> Result<Shape, LoadError> {
    let mut shape = Shape::default();
    let mut parser = Parser::new(0);
    // The parsers around this one, and where each goes on.
    let mut outer: Vec<(Parser, usize)> = Vec::new();
    let mut rest = wasm;
    loop {
        // The outermost one has no length: at the end of the file it is whole.
        let end = outer.last().map_or(wasm.len(), |(_, end)| *end);
        let last = wasm.len() - rest.len() >= end;
        let invalid = |error: wasmparser::BinaryReaderError| LoadError::Invalid {
            offset: error.offset(),
            reason: error.message().to_owned(),
        };
        let payload = match parser.parse(rest, last).map_err(invalid)? {
            Chunk::NeedMoreData(_) => return Err(LoadError::Incomplete { size: wasm.len() }),
            Chunk::Parsed { consumed, payload } => {
                rest = rest.get(consumed..).unwrap_or_default();
                payload
            }
        };
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if outer.is_empty() => {
                return Err(if is_whole_module(wasm) {
                    LoadError::CoreModule
                } else {
                    LoadError::Incomplete { size: wasm.len() }
                });
            }
            Payload::ModuleSection { parser: inner, unchecked_range }
            | Payload::ComponentSection { parser: inner, unchecked_range } => {
                if unchecked_range.end > wasm.len() {
                    return Err(LoadError::Incomplete { size: wasm.len() });
                }
                outer.push((std::mem::replace(&mut parser, inner), unchecked_range.end));
            }
            Payload::ComponentImportSection(section) if outer.is_empty() => {
                for import in section {
                    shape.imports.push(import.map_err(invalid)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if outer.is_empty() => {
                for export in section {
                    shape.exports.push(export.map_err(invalid)?.name.name.to_owned());
                }
            }
            Payload::End(_) => match outer.pop() {
                Some((next, _)) => parser = next,
                None => return Ok(shape),
            },
            _ => {}
        }
    }
}

fn is_whole_module(wasm: &[u8]) -> bool {
    let mut parser = Parser::new(0);
    let mut rest = wasm;
    loop {
        match parser.parse(rest, rest.is_empty()) {
            Ok(Chunk::Parsed { payload: Payload::End(_), .. }) => return true,
            Ok(Chunk::Parsed { consumed, .. }) => rest = rest.get(consumed..).unwrap_or_default(),
            Ok(Chunk::NeedMoreData(_)) => return false,
            // Not whole, not valid: the kind is what matters then.
            Err(_) => return true,
        }
    }
}

/// What a file is that is no wasm, with what to do.
fn looks_like(bytes: &[u8]) -> &'static str {
    let start = bytes.trim_ascii_start();
    if bytes.starts_with(b"\x7fELF") {
        "it is a native program or a precompiled .cwasm; put the .wasm that it was made of into the folder"
    } else if bytes.starts_with(b"\x1f\x8b") || bytes.starts_with(b"\x28\xb5\x2f\xfd") || bytes.starts_with(b"PK") {
        "it is compressed; unpack it first"
    } else if start.starts_with(b"(module") || start.starts_with(b"(component") {
        "it is WebAssembly text; translate it with `wasm-tools parse` first"
    } else if start.starts_with(b"<") {
        "it is a web page or XML, perhaps a download that went wrong"
    } else {
        "a WebAssembly file begins with the bytes 00 61 73 6d"
    }
}

#[cfg(test)]
mod tests;
