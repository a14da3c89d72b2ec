#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const LEAST: &str = "[provider]\nid = \"p\"\nbcs_to_provider_token = \"t\"\n";

fn file(text: &str) -> Result<Config, String> {
    load_from(Some((Path::new("a.toml"), text)), []).map_err(|e| e.0)
}

fn with_env(text: &str, env: &[(&str, &str)]) -> Result<Config, String> {
    let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    load_from(Some((Path::new("a.toml"), text)), env).map_err(|e| e.0)
}

#[test]
fn the_least_is_an_id_and_a_token() {
    let config = file(LEAST).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(config.limits.idempotency, Duration::from_secs(7 * 86_400));
    assert_eq!(config.limits.bot, Limits::default());
    assert!(file("").unwrap_err().contains("AVERNEST_PROVIDER__ID"));
    assert!(file("[provider]\nid = \"p\"").unwrap_err().contains("bcs_to_provider_token"));
}

#[test]
fn unknown_keys_are_refused_with_line_and_suggestion() {
    let error = file(&format!("{LEAST}[server]\nlisen = \"x\"\n")).unwrap_err();
    assert!(error.contains("a.toml, line 5") && error.contains("`lisen`") && error.contains("`listen`"), "{error}");
    let error = file(&format!("{LEAST}[servr]\n")).unwrap_err();
    assert!(error.contains("line 4") && error.contains("`server`"), "{error}");
    let error = with_env(LEAST, &[("AVERNEST_SERVER__PATHS", "/x")]).unwrap_err();
    assert!(error.contains("AVERNEST_SERVER__PATHS") && error.contains("`path`"), "{error}");
}

#[test]
fn values_of_the_wrong_kind_are_refused_with_line_and_range() {
    for (text, words) in [
        ("[limits]\nmax_body_mb = \"3\"", ["line 5", "whole number from 1 to 1024"]),
        ("[limits]\nmax_body_mb = 0", ["line 5", "whole number from 1 to 1024"]),
        ("[server]\nlisten = \"nowhere\"", ["line 5", "an address and a port"]),
        ("[server]\npath = \"healthz\"", ["line 5", "begin with /"]),
        ("[server]\nlisten = 3", ["line 5", "text in quotes"]),
        ("[bots.\"a b\"]\nbot_runtime_token = \"x\"", ["line 4", "1 to 256 characters"]),
        ("[server\n", ["line 4", "not TOML"]),
    ] {
        let error = file(&format!("{LEAST}{text}")).unwrap_err();
        assert!(words.iter().all(|w| error.contains(w)), "{text}: {error}");
    }
}

#[test]
fn the_environment_wins_and_lists_are_split() {
    let env = [
        ("AVERNEST_SERVER__LISTEN", "127.0.0.1:0"),
        ("AVERNEST_PROVIDER__BCS_TO_PROVIDER_TOKEN", "one, two"),
        ("AVERNEST_BOTS__ECHO__BOT_RUNTIME_TOKEN", "e"),
        ("AVERNEST_LOG", "debug"),
    ];
    let config = with_env(LEAST, &env).unwrap();
    assert_eq!(config.server.listen.port(), 0);
    let tokens: Vec<_> = config.provider.bcs_to_provider_tokens.iter().map(Secret::reveal).collect();
    assert_eq!(tokens, ["one", "two"]);
    assert_eq!(config.provider.bot_tokens.get(&BotRef::parse("echo").unwrap()).unwrap().reveal(), "e");
}

#[test]
fn tokens_come_out_of_files_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "  secret\n").unwrap();
    let text = format!("[provider]\nid = \"p\"\nbcs_to_provider_token_file = {path:?}\n");
    assert_eq!(file(&text).unwrap().provider.bcs_to_provider_tokens.first().unwrap().reveal(), "secret");
    std::fs::write(&path, "\n").unwrap();
    assert!(file(&text).unwrap_err().contains("holds no token"));
    std::fs::remove_file(&path).unwrap();
    assert!(file(&text).unwrap_err().contains("cannot be read"));
}

#[test]
fn a_token_is_not_blank_and_its_file_not_for_everyone() {
    use std::os::unix::fs::PermissionsExt;
    for blank in [" ", "\\t", "a b", "é"] {
        let error = file(&format!("[provider]\nid = \"p\"\nbcs_to_provider_token = \"{blank}\"\n")).unwrap_err();
        assert!(error.contains("line 3") && error.contains("visible ASCII"), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "t").unwrap();
    for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(tokens::is_open(&path), open, "{mode:o}");
    }
    assert!(!tokens::is_open(&dir.path().join("missing")));
}

#[test]
fn an_id_that_no_header_can_hold_is_refused() {
    let error = file("[provider]\nid = \"a\\nb\"\nbcs_to_provider_token = \"t\"\n").unwrap_err();
    assert!(error.contains("line 2") && error.contains("`provider.id`"), "{error}");
    assert!(file("[provider]\nid = \"päron\"\nbcs_to_provider_token = \"t\"\n").is_ok());
}

#[test]
fn what_is_printed_can_be_read_back() {
    let printed = print_settings().replace("# id = \"\"", "id = \"p\"");
    let printed = printed.replacen("# bcs_to_provider_token = \"\"", "bcs_to_provider_token = \"t\"", 1);
    assert!(file(&printed).is_ok());
    assert!(!format!("{:?}", file(&printed).unwrap()).contains("\"t\""));
}

proptest! {
    #[test]
    fn any_text_is_settings_or_a_sentence(text in ".{0,200}") {
        let _ = file(&text);
        let _ = file(&format!("{LEAST}[server]\n{text}"));
    }
}
