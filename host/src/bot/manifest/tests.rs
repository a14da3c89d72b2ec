#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn refused(text: &str) -> String {
    Manifest::parse("echo.toml", text).expect_err(text).to_string()
}

#[test]
fn everything_can_be_said() {
    let text = r#"
        ref = "echo:de"
        component = "./shared/echo.wasm"
        [bot]
        name = "Echo"
        summary = "Says it again"
        owners = ["u-1"]
        domains = ["tests"]
        skills = ["echo", { name = "count", description = "counts" }]
        [limits]
        memory_mb = 64
        table_elements = 5
        cpu_seconds = 7
        inject_seconds = 2
        output_mb = 3
        state_kb = 9
        state_keys = 11
        host_data_mb = 4
        log_kb = 0
        [runs]
        rerun_after_crash = true
        max_concurrent = 13
    "#;
    let manifest = Manifest::parse("echo.toml", text).unwrap();
    assert_eq!(manifest.bot_ref.as_ref().unwrap().as_str(), "echo:de");
    assert_eq!(manifest.component.as_deref(), Some(Path::new("shared/echo.wasm")));
    assert!(manifest.rerun_after_crash);
    assert_eq!(manifest.bot.skills.len(), 2);
    let limits = manifest.limits(&Limits::default());
    let expected = Limits {
        memory_bytes: 64 << 20,
        table_elements: 5,
        cpu_time: Duration::from_secs(7),
        inject_time: Duration::from_secs(2),
        output_bytes: 3 << 20,
        state_bytes: 9 << 10,
        state_keys: 11,
        host_data_bytes: 4 << 20,
        log_bytes: 0,
        max_concurrent: 13,
    };
    assert_eq!(limits, expected);
}

#[test]
fn nothing_need_be_said() {
    let manifest = Manifest::parse("echo.toml", "").unwrap();
    assert_eq!(manifest, Manifest::default());
    assert_eq!(manifest.limits(&Limits::default()), Limits::default());
}

#[test]
fn errors_name_file_line_and_key() {
    for (text, expected) in [
        ("ref = \"a\"\nrefs = 1\n", "echo.toml, line 2: unknown key \"refs\"; did you mean `ref`?"),
        ("[limits]\n\nmemry_mb = 1", "echo.toml, line 3: unknown key \"memry_mb\"; did you mean `memory_mb`?"),
        (
            "[settings]\na = 1",
            "echo.toml, line 1: unknown key \"settings\"; known here are `ref`, `component`, `bot`, `limits`, `runs`",
        ),
        ("\"x`, y\" = 1", "unknown key \"x`, y\"; known here are `ref`"),
        ("[secrets]", "unknown key \"secrets\""),
        ("[grants]", "unknown key \"grants\""),
        ("[limits]\nmemory_mb = 0", "echo.toml, line 2: `limits.memory_mb` is 0, but it must be between 1 and 4096"),
        ("[limits]\nlog_kb = -1", "line 2: `limits.log_kb` is -1, but it must be between 0"),
        ("[limits]\nmemory_mb = \"64\"", "echo.toml, line 2: `memory_mb`: invalid type: string"),
        ("[runs]\nmax_concurrent = 0", "line 2: `runs.max_concurrent` is 0"),
        ("[runs]\nrerun_after_crash = 1", "line 2: `rerun_after_crash`: invalid type: integer"),
        ("ref = \"a b\"", "echo.toml, line 1: `ref` is \"a b\", but a bot reference has"),
        ("[bot]\nskills = [1]", "line 2: `skills`: expected a name, or a table with `name`"),
        ("ref = ", "echo.toml, line 1: "),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text:?} gave {error:?}, not {expected:?}");
    }
}

#[test]
fn a_component_stays_inside_the_folder() {
    for path in [
        "../a.wasm",
        "a/../../b.wasm",
        "a/../b.wasm",
        "/a.wasm",
        "",
        ".",
        "..",
        "a.txt",
        ".wasm",
        "a.wasm/",
        "a\\\\b.wasm",
    ] {
        let error = refused(&format!("component = \"{path}\""));
        assert!(error.contains("line 1: `component`"), "{path}: {error}");
    }
    for (path, expected) in [("a.wasm", "a.wasm"), ("..data/a.wasm", "..data/a.wasm"), ("./a//b.wasm", "a/b.wasm")] {
        let manifest = Manifest::parse("m.toml", &format!("component = \"{path}\"")).unwrap();
        assert_eq!(manifest.component.unwrap(), Path::new(expected));
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*|(\\[?(ref|component|bot|limits|runs|skills|memory_mb|é)\\]?[=\n\"'`., {}0-9-]{0,4}){0,12}") {
        if let Err(error) = Manifest::parse("m.toml", &text) {
            prop_assert!(!error.message.is_empty());
            prop_assert!(error.line.is_none_or(|line| (1..=text.split('\n').count()).contains(&line)));
        }
    }

    #[test]
    fn an_accepted_component_has_only_plain_parts(path in "[./a\\\\]{0,8}(.wasm)?") {
        if let Ok(path) = component_path(&path) {
            prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
        }
    }
}
