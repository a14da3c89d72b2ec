//! What holds a token shows nothing of it: not printed, not in an error, not as JSON.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use avernest::config::{self, AuthMode, Config, ProviderConfig};
use avernest::network::{BcsClient, Credentials};
use avernest::sim::BcsOptions;
use avernest::webhook::DoorOptions;
use avernest::wire::message::{Attachment, RawMessage};
use avernest::wire::{BotRef, Secret};
use serde::Serialize;

/// In every planted token, and nowhere else.
const PLANTED: &str = "plantedToken";

/// Whether a type has a trait: the constants of the type itself come first, and are there only if it has.
struct Has<T>(PhantomData<T>);
trait Otherwise {
    const DISPLAY: bool = false;
    const SERIALIZE: bool = false;
}
impl<T> Otherwise for Has<T> {}
impl<T: Display> Has<T> {
    const DISPLAY: bool = true;
}
struct HasSerialize<T>(PhantomData<T>);
impl<T> Otherwise for HasSerialize<T> {}
impl<T: Serialize> HasSerialize<T> {
    const SERIALIZE: bool = true;
}

#[test]
fn no_type_with_a_token_can_be_displayed_or_serialized() {
    // That the question is put rightly.
    const { assert!(Has::<String>::DISPLAY && HasSerialize::<String>::SERIALIZE) };
    macro_rules! none {
        ($($t:ty),*) => {$(
            const { assert!(!Has::<$t>::DISPLAY, "it has Display") };
            const { assert!(!HasSerialize::<$t>::SERIALIZE, "it has Serialize") };
        )*};
    }
    none!(Secret, Config, ProviderConfig, DoorOptions, Credentials, BcsClient, BcsOptions);
}

fn token(n: usize) -> String {
    format!("{PLANTED}{n}")
}

/// Settings with a token everywhere one can be.
fn planted() -> Config {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, token(1)).unwrap();
    let text = format!(
        "[provider]\nid = \"p\"\nbcs_to_provider_token = [\"{}\", \"{}\"]\nbcs_to_provider_token_file = {file:?}\n\
         bot_runtime_token = \"{}\"\nprovider_admin_token = \"{}\"\nauth_mode = \"provider_admin\"\n\
         [bots.echo]\nbot_runtime_token = \"{}\"\n",
        token(2),
        token(3),
        token(4),
        token(5),
        token(6)
    );
    let env = [("AVERNEST_BOTS__PROBE__BOT_RUNTIME_TOKEN".to_owned(), token(7))];
    let config = config::load_from(Some((Path::new("a.toml"), &text)), env).unwrap();
    assert_eq!(config.provider.bcs_to_provider_tokens.len(), 3);
    assert_eq!(config.provider.bot_tokens.len(), 2);
    config
}

#[track_caller]
fn shows_nothing(value: &impl Debug) {
    for shown in [format!("{value:?}"), format!("{value:#?}")] {
        assert!(!shown.is_empty() && !shown.contains(PLANTED), "{shown}");
    }
}

#[test]
fn printed_for_a_log_there_is_no_token() {
    let config = planted();
    assert_eq!(config.provider.auth_mode, AuthMode::ProviderAdmin);
    shows_nothing(&config);
    shows_nothing(&config.provider);
    shows_nothing(&config.provider.bcs_to_provider_tokens);
    let secret = Secret::new(token(8));
    assert_eq!(format!("{secret:?}"), "[secret]");
    let door = DoorOptions {
        path: "/webhook".into(),
        provider_id: "p".into(),
        tokens: config.provider.bcs_to_provider_tokens.clone(),
        max_clock_skew: Duration::ZERO,
        body_bytes: 1,
        body_timeout: Duration::ZERO,
        default_timeout: Duration::ZERO,
    };
    shows_nothing(&door);
    let bots = BTreeMap::from([(BotRef::parse("echo").unwrap(), secret.clone())]);
    for credentials in
        [Credentials::StaticBearer { default: Some(secret.clone()), bots }, Credentials::ProviderAdmin(secret.clone())]
    {
        shows_nothing(&credentials);
        shows_nothing(&BcsClient::new(Some("https://bcs.example"), "p", credentials).unwrap());
    }
    shows_nothing(&BcsOptions {
        b2p_token: secret.clone(),
        bot_runtime_token: Some(secret.clone()),
        bot_runtime_tokens: [("echo".to_owned(), secret.clone())].into(),
        provider_admin_token: secret,
        ..BcsOptions::default()
    });
}

#[test]
fn a_refusal_of_settings_does_not_repeat_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{} and more", token(1))).unwrap();
    let (a, b) = (token(2), token(3));
    let provider = "[provider]\nid = \"p\"\n";
    for text in [
        format!("{provider}bcs_to_provider_token = \"{a} {b}\"\n"),
        format!("{provider}bcs_to_provider_token = [\"{a}\", 3]\n"),
        format!("{provider}bcs_to_provider_token = {{ a = \"{a}\" }}\n"),
        format!("{provider}bcs_to_provider_token_file = {file:?}\n"),
        format!("{provider}bcs_to_provider_token = \"{a}\"\nbcs_to_provider_token = \"{b}\"\n"),
        format!("{provider}bcs_to_provider_token = \"{a}\nid = \"p\"\n"),
        format!("{provider}bcs_to_provider_token = \"{a}\" \"{b}\"\n"),
        format!("{provider}bcs_to_provider_token = {a}\n"),
        format!("{provider}bcs_to_provider_token = \"{a}\\q\"\n"),
        format!(
            "{provider}bcs_to_provider_token = \"{a}\"\nbot_runtime_token = \"{b}\"\nbot_runtime_token_file = {file:?}\n"
        ),
        format!(
            "{provider}bcs_to_provider_token = \"{a}\"\nauth_mode = \"provider_admin\"\nbot_runtime_token = \"{b}\"\n"
        ),
        format!("{provider}bcs_to_provider_token = \"{a}\"\nbcs_url = \"https://{b}@bcs.example/\"\n"),
        format!("{provider}bcs_to_provider_token = \"{a}\"\nbcs_url = \"{b}\"\n"),
        format!("{provider}bcs_to_provider_token = \"{a}\"\n[bots.echo]\nbot_runtime_token = [\"{b}\"]\n"),
    ] {
        let error = config::load_from(Some((Path::new("a.toml"), &text)), []).unwrap_err();
        assert!(!error.0.contains(PLANTED), "{error}");
    }
    for (name, value) in [
        ("AVERNEST_PROVIDER__BCS_TO_PROVIDER_TOKEN", format!("{a} {b}")),
        ("AVERNEST_BOTS__ECHO__BOT_RUNTIME_TOKEN", format!("{a} {b}")),
        ("AVERNEST_PROVIDER__BCS_TO_PROVIDER_TOKENS", a.clone()),
    ] {
        let env = [(name.to_owned(), value)];
        let text = format!("{provider}bcs_to_provider_token = \"t\"\n");
        let error = config::load_from(Some((Path::new("a.toml"), &text)), env).unwrap_err();
        assert!(!error.0.contains(PLANTED), "{error}");
    }
}

#[test]
fn an_attachment_is_printed_without_its_address() {
    let address = format!("https://files.example/{PLANTED}");
    let raw: RawMessage = serde_json::from_value(
        serde_json::json!({"message": "see", "attachments": [{"file_name": "a", "url": address}]}),
    )
    .unwrap();
    let message = raw.parse().unwrap();
    assert_eq!(message.attachments.first().and_then(|a: &Attachment| a.url.as_deref()), Some(address.as_str()));
    shows_nothing(&raw);
    shows_nothing(&message.attachments);
    shows_nothing(&message);
}
