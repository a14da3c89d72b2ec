//! Compares what a component imports and exports with what this host has.

use super::inspect::Shape;
use super::load_error::LoadError;
use crate::text::{excerpt, one_line};

/// The package of the contract, and the version that this host serves.
const PACKAGE: &str = "avernest:bot";
const VERSION: &str = "0.1.0";

/// What the contract's world imports.
const OWN: &[&str] = &["types", "progress", "session", "logging"];

/// The interfaces of WASI 0.2 that link, by package.
const WASI: &[(&str, &[&str])] = &[
    (
        "wasi:cli",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", &["monotonic-clock", "wall-clock"]),
    ("wasi:filesystem", &["preopens", "types"]),
    ("wasi:io", &["error", "poll", "streams"]),
    ("wasi:random", &["insecure", "insecure-seed", "random"]),
    (
        "wasi:sockets",
        &["instance-network", "ip-name-lookup", "network", "tcp", "tcp-create-socket", "udp", "udp-create-socket"],
    ),
];

/// `package/interface@version`, taken apart.
struct Name<'a> {
    package: &'a str,
    interface: &'a str,
    version: &'a str,
}

impl<'a> Name<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let (package, rest) = name.split_once('/')?;
        let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
        Some(Self { package, interface, version })
    }
}

/// Whether the component is of the world `bot`, as far as names tell.
pub(super) fn check(shape: &Shape) -> Result<(), LoadError> {
    check_exports(&shape.exports)?;
    shape.imports.iter().try_for_each(|import| check_import(import))
}

fn check_exports(exports: &[String]) -> Result<(), LoadError> {
    let own: Vec<Name<'_>> =
        exports.iter().filter_map(|export| Name::of(export)).filter(|name| name.package == PACKAGE).collect();
    let chat: Vec<&Name<'_>> = own.iter().filter(|name| name.interface == "chat").collect();
    if chat.iter().any(|name| is_release_of(name.version, "0.1.")) {
        return Ok(());
    }
    if let Some(other) = chat.first() {
        return Err(LoadError::WrongWorld(format!(
            "The component exports {PACKAGE}/chat@{}, and this host serves {PACKAGE}/chat@{VERSION}. Build it against \
             this host's wit/bot.wit, or use a host of that version.",
            excerpt(other.version)
        )));
    }
    let there = match exports {
        [] => "It exports nothing.".to_owned(),
        exports => format!("It exports {}.", list(exports)),
    };
    Err(LoadError::WrongWorld(format!(
        "The component does not export {PACKAGE}/chat@{VERSION}, so it is no bot. {there} Build it for the world `bot` \
         of wit/bot.wit."
    )))
}

fn check_import(import: &str) -> Result<(), LoadError> {
    let refuse = |text: String| Err(LoadError::UnknownImport(text));
    let named = Name::of(import);
    let import = excerpt(import);
    let Some(name) = named else {
        return refuse(format!(
            "The component imports `{import}`, which this host does not know. It offers {}. Build the bot without that \
             import.",
            offers()
        ));
    };
    if name.package == PACKAGE {
        return if !OWN.contains(&name.interface) {
            refuse(format!(
                "The component imports {import}, and this host offers of {PACKAGE}@{VERSION}: {}. Build it against \
                 this host's wit/bot.wit, or use a newer host.",
                OWN.join(", ")
            ))
        } else if is_release_of(name.version, "0.1.") {
            Ok(())
        } else {
            refuse(format!(
                "The component imports {import}, and this host offers {PACKAGE}@{VERSION}. Build it against this \
                 host's wit/bot.wit, or use a host of that version."
            ))
        };
    }
    let known = WASI.iter().find(|(package, _)| *package == name.package);
    match known {
        Some((_, interfaces)) if interfaces.contains(&name.interface) && is_release_of(name.version, "0.2.") => Ok(()),
        Some((package, interfaces)) => refuse(format!(
            "The component imports {import}, and this host offers of {package}@0.2: {}. Build it with a toolchain for \
             WASI 0.2 and without that import.",
            interfaces.join(", ")
        )),
        None => refuse(format!(
            "The component imports {import}, which this host does not offer. It offers {}. Build the bot without that \
             import.",
            offers()
        )),
    }
}

/// Whether a version is a release that begins so: `0.2.0-rc-2023-11-10` is not one of 0.2.
fn is_release_of(version: &str, start: &str) -> bool {
    version
        .strip_prefix(start)
        .is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit()))
}

fn offers() -> String {
    let wasi: Vec<&str> = WASI.iter().map(|(package, _)| *package).collect();
    format!("{PACKAGE}@{VERSION} ({}) and of WASI 0.2 {}", OWN.join(", "), wasi.join(", "))
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).map(|name| excerpt(name)).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// What wasmtime says when the names fit and the types do not.
pub(super) fn type_mismatch(error: &wasmtime::Error) -> LoadError {
    LoadError::UnknownImport(format!(
        "The component was built against another form of an interface than this host has: {}. Build it against this \
         host's wit/bot.wit and a released WASI 0.2.",
        one_line(&format!("{error:#}"), 1_000)
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn shape(imports: &[&str], exports: &[&str]) -> Shape {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Shape { imports: own(imports), exports: own(exports) }
    }

    fn refusal(imports: &[&str], exports: &[&str]) -> String {
        check(&shape(imports, exports)).unwrap_err().to_string()
    }

    const CHAT: &[&str] = &["avernest:bot/chat@0.1.0"];

    #[test]
    fn what_is_offered_is_accepted() {
        let imports = ["avernest:bot/session@0.1.0", "wasi:cli/stderr@0.2.6", "wasi:io/poll@0.2.0"];
        assert_eq!(check(&shape(&imports, CHAT)), Ok(()));
        assert_eq!(check(&shape(&[], &["x:y/z", "avernest:bot/chat@0.1.3"])), Ok(()));
    }

    #[test]
    fn every_refusal_names_what_is_wrong() {
        assert!(refusal(&[], &[]).contains("does not export avernest:bot/chat@0.1.0"));
        assert!(refusal(&[], &["wasi:cli/run@0.2.0"]).contains("It exports wasi:cli/run@0.2.0."));
        assert!(refusal(&[], &["avernest:bot/chat@0.2.0"]).contains("exports avernest:bot/chat@0.2.0"));
        for import in [
            "wasi:http/types@0.2.0",
            "wasi:cli/stderr@0.3.0",
            "wasi:io/poll@0.2.0-rc-2023-11-10",
            "wasi:clocks/timezone@0.2.0",
            "avernest:bot/magic@0.1.0",
            "avernest:bot/session@0.2.0",
            "bare",
            "a:b/c",
            "",
        ] {
            let text = refusal(&[import], CHAT);
            assert!(text.contains(import) && text.contains("offers"), "{text}");
        }
    }
}
