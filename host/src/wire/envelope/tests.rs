#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::wire::ErrorCode;

fn send() -> Value {
    json!({
        "type": "req", "id": "run-1", "method": "chat.send", "session_id": "g:1", "bcn_group_id": "g",
        "to_bot": {"provider_id": "p", "provider_bot_ref": "echo", "tags": ["a", "b"]},
        "from": {"kind": "bot", "name": "Ann", "actor_id": "human_1"},
        "message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1},
        "timeout_ms": 60000, "extensions": {"caller_wait_mode": "detached"}, "later_field": [1],
    })
}

fn with(path: &str, value: Value) -> Value {
    let mut body = send();
    *body.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    body
}

fn method(name: &str) -> Value {
    with("/method", name.into())
}

fn without(mut body: Value, name: &str) -> Value {
    body.as_object_mut().unwrap().remove(name).unwrap();
    body
}

fn parse(body: &Value) -> Result<Envelope, ApiError> {
    Envelope::parse(body.to_string().as_bytes())
}

/// The refusal of a body: its code is always the same, and it never repeats much of the input.
#[track_caller]
fn refused(body: &[u8]) -> String {
    let error = Envelope::parse(body).unwrap_err();
    assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
    assert!(error.message.len() < 300, "{}", error.message);
    assert!(!error.message.contains(char::is_control), "{:?}", error.message);
    error.message
}

#[test]
fn reads_a_send() {
    let envelope = parse(&send()).unwrap();
    assert_eq!(envelope.method, Method::Send);
    assert_eq!((envelope.id.as_str(), envelope.session_id.as_str(), envelope.group_id.as_str()), ("run-1", "g:1", "g"));
    assert_eq!((envelope.provider_id.as_deref(), envelope.bot.as_deref()), (Some("p"), Some("echo")));
    assert_eq!(envelope.tags, ["a", "b"]);
    assert_eq!(envelope.timeout_ms, Some(60000));
    assert_eq!(envelope.extensions.unwrap().get(), r#"{"caller_wait_mode":"detached"}"#);
    assert_eq!(envelope.fingerprint, Fingerprint::of(&send()));
    assert!(envelope.message.unwrap().attachments.is_none());
}

#[test]
fn keeps_what_came_to_the_letter() {
    let message = r#"{ "text" : "\u0061\/",  "n": 1.00e2, "big": 123456789012345678901234567890 }"#;
    let body = format!(
        r#"{{"type":"req","id":"1","method":"chat.inject","to_bot":{{"provider_id":"p","provider_bot_ref":"b"}},
        "session_id":" A ","message":{message},"attachments":[ {{"x":1.0}} ],"extensions":{{ "a" :1e400}}}}"#
    );
    let envelope = Envelope::parse(body.as_bytes()).unwrap();
    let kept = envelope.message.unwrap();
    assert_eq!(kept.message.get(), message);
    assert_eq!(kept.attachments.unwrap().get(), r#"[ {"x":1.0} ]"#);
    assert_eq!(envelope.extensions.unwrap().get(), r#"{ "a" :1e400}"#);
    assert_eq!(envelope.session_id, " A ");
    assert_eq!((envelope.group_id.as_str(), envelope.timeout_ms), ("", None));
}

#[test]
fn every_method_has_its_fields() {
    for (name, expected) in [
        ("chat.send", Method::Send),
        ("chat.inject", Method::Inject),
        ("chat.abort", Method::Abort),
        ("chat.history", Method::History),
        ("bot.ping", Method::Ping),
    ] {
        assert_eq!(parse(&method(name)).unwrap().method, expected);
        assert_eq!(expected.as_str(), name);
        for field in ["id", "type", "to_bot", "session_id"] {
            let answer = parse(&without(method(name), field));
            match expected {
                Method::Ping => assert!(answer.is_ok(), "{name} {field}"),
                _ => assert!(answer.unwrap_err().message.contains(&format!("`{field}` is missing")), "{name} {field}"),
            }
        }
        let messageless = parse(&without(method(name), "message"));
        assert_eq!(messageless.is_err(), matches!(expected, Method::Send | Method::Inject), "{name}");
        let message = parse(&method(name)).unwrap().message;
        assert_eq!(message.is_some(), matches!(expected, Method::Send | Method::Inject), "{name}");
    }
    assert!(parse(&method("interaction.resolve")).unwrap_err().message.contains("`params` is missing"));
    let mut resolve = method("interaction.resolve");
    resolve["params"] = json!({"decision": "yes"});
    assert_eq!(parse(&resolve).unwrap().params.unwrap().get(), r#"{"decision":"yes"}"#);

    let ping = parse(&json!({"method": "bot.ping"})).unwrap();
    assert_eq!((ping.id.as_str(), ping.provider_id, ping.bot), ("", None, None));
    assert!(parse(&json!({"method": "bot.ping", "to_bot": {}})).is_ok());
    assert!(parse(&json!({"method": "bot.ping", "to_bot": []})).is_err());
}

#[test]
fn of_an_unknown_method_little_is_checked() {
    let odd = json!({
        "type": "req", "id": "1", "method": "task.later", "to_bot": {"provider_id": "p", "tags": 4}, "session_id": 5,
        "timeout_ms": "x", "message": 7,
    });
    let envelope = parse(&odd).unwrap();
    assert_eq!(envelope.method, Method::Other("task.later".into()));
    assert_eq!((envelope.bot, envelope.provider_id.as_deref()), (None, Some("p")));
    for field in ["type", "id", "method", "to_bot"] {
        assert!(parse(&without(odd.clone(), field)).unwrap_err().message.contains(field));
    }
}

#[test]
fn names_the_field_and_what_was_found() {
    let cases = [
        ("/to_bot/provider_id", json!(7), "field `to_bot.provider_id`: expected a string, found a number"),
        ("/to_bot/provider_bot_ref", json!([]), "field `to_bot.provider_bot_ref`: expected a string, found an array"),
        ("/to_bot/provider_bot_ref", Value::Null, "field `to_bot.provider_bot_ref` is missing: expected a string"),
        ("/to_bot/tags", json!("a"), "field `to_bot.tags`: expected an array of strings, found a string"),
        ("/to_bot/tags/1", json!(true), "field `to_bot.tags[1]`: expected a string, found a boolean"),
        ("/to_bot", json!("p"), "field `to_bot`: expected an object, found a string"),
        ("/to_bot", json!(["p", "b"]), "field `to_bot`: expected an object, found an array"),
        ("/type", json!("res"), "field `type`: expected \"req\", found \"res\""),
        ("/type", json!(1), "field `type`: expected a string, found a number"),
        ("/id", json!(""), "field `id`: expected a string that is not empty"),
        ("/id", json!("x".repeat(513)), "field `id`: expected at most 512 bytes, found 513"),
        ("/session_id", json!("é".repeat(513)), "field `session_id`: expected at most 1024 bytes, found 1026"),
        ("/bcn_group_id", json!("é".repeat(513)), "field `bcn_group_id`: expected at most 1024 bytes, found 1026"),
        ("/session_id", Value::Null, "field `session_id` is missing: expected a string"),
        ("/method", json!({}), "field `method`: expected a string, found an object"),
        ("/timeout_ms", json!(0), "field `timeout_ms`: expected a whole number, 1 or more, found 0"),
        ("/timeout_ms", json!(-5), "field `timeout_ms`: expected a whole number, 1 or more, found -5"),
        ("/timeout_ms", json!(1.5), "field `timeout_ms`: expected a whole number, 1 or more, found 1.5"),
        ("/timeout_ms", json!("9"), "field `timeout_ms`: expected a whole number, 1 or more, found a string"),
        ("/extensions", json!([]), "field `extensions`: expected an object, found an array"),
        ("/from", json!("Ann"), "field `from`: expected an object, found a string"),
        (
            "/message",
            json!(5),
            "field `message`: expected a string or an object with `text` or `content`, found a number",
        ),
    ];
    for (path, value, expected) in cases {
        assert_eq!(refused(with(path, value).to_string().as_bytes()), expected);
    }
    assert!(parse(&with("/id", json!("x".repeat(512)))).is_ok());
    assert!(parse(&with("/session_id", json!(""))).is_ok());
    for optional in ["/to_bot/tags", "/bcn_group_id", "/timeout_ms", "/extensions", "/from", "/later_field"] {
        assert!(parse(&with(optional, Value::Null)).is_ok(), "{optional}");
    }
}

#[test]
fn pages_one_way() {
    let history = |fields: Value| {
        let mut body = method("chat.history");
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        parse(&body)
    };
    let page = history(json!({"before": 0, "limit": 5000})).unwrap();
    assert_eq!((page.before, page.after, page.limit), (Some(0), None, Some(5000)));
    assert_eq!(history(json!({"after": u64::MAX, "before": null})).unwrap().after, Some(u64::MAX));
    for wrong in [json!({"before": 1, "after": 1}), json!({"limit": 0}), json!({"limit": 1.0}), json!({"before": "1"})]
    {
        assert!(history(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn refuses_what_is_no_body() {
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let very_deep = format!(r#"{{"a":{}"#, "[".repeat(3_000_000));
    let cases: &[(&[u8], &str)] = &[
        (b"", "the body is empty"),
        (b" \r\n", "the body is empty"),
        (b"{\"type\":\"req\",\n \"id\" 1}", "not valid JSON: expected `:` at line 2 column 7"),
        (b"{\"type\"", "not valid JSON"),
        (b"hello", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (very_deep.as_bytes(), "not valid JSON"),
        (b"[{}]", "must be a JSON object, found an array"),
        (b"\"x\"", "must be a JSON object, found a string"),
        (b" 12", "must be a JSON object, found a number"),
        (b"{\"a\":\"\xff\"}", "not UTF-8: byte 7"),
        (deep.as_bytes(), "nested more than 128 deep (line 1, column 133)"),
        (b"{\"id\":\"1\",\n\"\\u0069d\":\"2\"}", "the field `id` is there twice in one object (line 2, column 1)"),
        (b"{\"message\":{\"x\\n\":1,\"x\\n\":1}}", "the field `x\\n` is there twice"),
        (b"{\"id\":\"\\ud834\"}", "half of a surrogate pair, which is no character (line 1, column 7)"),
        (b"{\"later\":{\"\\udc00\":1}}", "half of a surrogate pair"),
    ];
    for (body, expected) in cases {
        let message = refused(body);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn repeats_little_of_the_input() {
    let long = "\u{1b}[31m\n".repeat(100_000);
    for body in [with("/type", json!(long)), with("/timeout_ms", json!(1)), json!({ long.clone(): 1, "id": 1 })] {
        let text = body.to_string().replace("\"timeout_ms\":1", &format!("\"timeout_ms\":{}", "9".repeat(10_000)));
        refused(text.as_bytes());
    }
    let key = json!(long).to_string();
    refused(format!("{{{key}:1,{key}:2}}").as_bytes());
}

#[test]
fn five_megabytes_survive() {
    let text = "𝄞\r\n\0\u{2028}é".repeat(5 * 1024 * 1024 / 12);
    let envelope = parse(&with("/message", json!(text))).unwrap();
    assert!(envelope.message.unwrap().parse().unwrap().text == text);
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Envelope::parse(&bytes).is_err());
    }

    #[test]
    fn broken_bodies_are_refused_or_read(at in 0..400_usize, with in any::<u8>(), cut in any::<bool>()) {
        let mut body = send().to_string().into_bytes();
        let at = at % body.len();
        if cut {
            body.truncate(at);
            prop_assert!(Envelope::parse(&body).is_err());
        } else {
            body[at] = with;
            // Either way; what counts is that it is an answer.
            let _ = Envelope::parse(&body);
        }
    }

    #[test]
    fn any_field_may_hold_anything(
        method in 0..6_usize, field in 0..16_usize, text in ".{0,90}", number in any::<f64>(), kind in 0..6,
    ) {
        let methods = ["chat.send", "chat.inject", "chat.abort", "chat.history", "bot.ping", "interaction.resolve"];
        let fields = ["type", "id", "session_id", "bcn_group_id", "to_bot", "message", "from", "attachments", "timeout_ms",
            "extensions", "params", "before", "after", "limit", "method", "later"];
        let mut body = self::method(methods[method]);
        body[fields[field]] = match kind {
            0 => json!(null),
            1 => json!(text),
            2 => json!(number),
            3 => json!([text, number]),
            4 => json!({ text: number }),
            _ => json!(true),
        };
        if let Err(error) = parse(&body) {
            prop_assert_eq!(error.status, 400);
            prop_assert!(error.message.len() < 400 && !error.message.contains(char::is_control));
        }
    }

    #[test]
    fn session_names_are_opaque(session in any::<String>()) {
        prop_assert_eq!(parse(&with("/session_id", json!(session))).unwrap().session_id, session);
    }
}
