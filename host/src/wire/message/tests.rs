#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn message(value: &Value) -> RawMessage {
    RawMessage { message: raw(value), from: None, attachments: None }
}

fn text(value: &Value) -> Result<String, ApiError> {
    message(value).parse().map(|message| message.text)
}

#[test]
fn four_forms_are_one() {
    for form in [
        json!("hi"),
        json!({"text": "hi"}),
        json!({"content": "hi"}),
        json!({"content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}),
        json!({"content": "hi", "text": 5}),
        json!({"content": null, "text": "hi"}),
    ] {
        assert_eq!(text(&form).unwrap(), "hi", "{form}");
        assert_eq!(message(&form).parse().unwrap().json, form.to_string());
    }
    assert_eq!(text(&json!({"content": []})).unwrap(), "");
    assert_eq!(text(&json!("")).unwrap(), "");
}

#[test]
fn unknown_blocks_are_passed_over_and_kept() {
    let form = json!({"content": [
        {"type": "text", "text": "a"}, {"type": "image", "url": "u"}, {"type": "later", "text": "no"}, {"text": "no"},
        {"type": 5, "text": 6}, {"type": "text", "text": "b", "later": {}},
    ]});
    let read = message(&form).parse().unwrap();
    assert_eq!((read.text.as_str(), read.json), ("ab", form.to_string()));
}

#[test]
fn other_forms_name_their_field() {
    let cases = [
        (json!(5), "field `message`: expected a string or an object with `text` or `content`, found a number"),
        (json!([]), "field `message`: expected a string or an object with `text` or `content`, found an array"),
        (json!({"role": "user"}), "found an object with neither"),
        (json!({"text": 5}), "field `message.text`: expected a string, found a number"),
        (
            json!({"content": {}}),
            "field `message.content`: expected a string or an array of content blocks, found an object",
        ),
        (json!({"content": ["x"]}), "field `message.content[0]`: expected an object, found a string"),
        (
            json!({"content": [{}, {"type": "text", "text": 1}]}),
            "field `message.content[1].text`: expected a string, found a number",
        ),
        (json!({"content": [{"type": "text"}]}), "field `message.content[0].text` is missing: expected a string"),
    ];
    for (form, expected) in cases {
        let error = text(&form).unwrap_err().message;
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn roles() {
    let role = |value: Value| message(&json!({"text": "x", "role": value})).parse().unwrap().role;
    assert_eq!(role(json!("assistant")), Role::Assistant);
    assert_eq!(role(json!("system")), Role::System);
    for other in [json!("user"), json!("tool"), json!(null), json!(5), json!("Assistant")] {
        assert_eq!(role(other), Role::User);
    }
    assert_eq!(message(&json!("x")).parse().unwrap().role, Role::User);
}

#[test]
fn attachments_and_their_secrets() {
    let mut form = message(&json!({"role": "user"}));
    let list = json!([{"file_name": "a.png", "mime_type": "image/png", "url": "https://x/secret", "size": 5}, {}]);
    form.attachments = Some(raw(&list));
    let read = form.parse().unwrap();
    assert_eq!((read.text.as_str(), read.attachments.len()), ("", 2));
    let first = &read.attachments[0];
    assert_eq!((first.name.as_deref(), first.media_type.as_deref()), (Some("a.png"), Some("image/png")));
    assert_eq!((first.url.as_deref(), first.json.as_str()), (Some("https://x/secret"), list[0].to_string().as_str()));
    assert!(!format!("{read:?} {form:?}").contains("secret"));

    for (wrong, field) in [
        (json!({}), "`attachments`"),
        (json!(["x"]), "`attachments[0]`"),
        (json!([{"url": 5}]), "`attachments[0].url`"),
    ] {
        form.attachments = Some(raw(&wrong));
        assert!(form.parse().unwrap_err().message.contains(field), "{wrong}");
    }
    // An empty list brings nothing.
    form.attachments = Some(raw(&json!([])));
    assert!(form.parse().is_err());
}

#[test]
fn the_author_by_from() {
    let author = |from: Value| {
        let mut form = message(&json!("x"));
        form.from = Some(raw(&from));
        form.parse().map(|message| message.author.unwrap())
    };
    let of = |kind: &str, name: &str, id: Option<&str>| Author {
        kind: kind.into(),
        name: name.into(),
        id: id.map(Into::into),
    };
    let full = author(json!({"kind": "bot", "name": "Ann", "actor_id": "human_1", "later": 1})).unwrap();
    assert_eq!(full, of("bot", "Ann", Some("human_1")));
    assert_eq!(author(json!({"kind": "bot", "actor_id": "7"})).unwrap(), of("bot", "7", Some("7")));
    assert_eq!(author(json!({})).unwrap(), of("", "", None));
    assert!(author(json!("Ann")).unwrap_err().message.contains("`from`"));
    assert!(author(json!({"name": 5})).unwrap_err().message.contains("`from.name`"));
    assert_eq!(message(&json!("x")).parse().unwrap().author, None);
}

#[test]
fn a_sender_line_is_the_author_and_no_text() {
    let line = r#"{"sender":{"id":"410025","name":"张三"}}"#;
    for (body, rest) in [
        (format!("{line}\n\nhello"), "hello"),
        (format!("{line}\r\n\r\nhello\r\n"), "hello\r\n"),
        (format!("{line}\n\n"), ""),
        (format!("{line}\n\n\n{line}\n\nx"), &format!("\n{line}\n\nx")),
    ] {
        let mut form = message(&json!({"content": [{"type": "text", "text": body}]}));
        form.from = Some(raw(&json!({"kind": "bot", "name": "Ann"})));
        let read = form.parse().unwrap();
        assert_eq!(read.text, rest);
        assert_eq!(
            read.author.unwrap(),
            Author { kind: "sender".into(), name: "张三".into(), id: Some("410025".into()) }
        );
        // The server attributes by the text, so its history has the line.
        assert_eq!(form.to_history("i", 1)["content"][0]["text"], body);
    }
    // As a block of its own.
    let blocks =
        json!({"content": [{"type": "text", "text": format!("{line}\n\n")}, {"type": "text", "text": "hello"}]});
    assert_eq!(text(&blocks).unwrap(), "hello");
    let name = |line: &str| message(&json!(format!("{line}\n\nx"))).parse().unwrap().author.unwrap().name;
    assert_eq!(name(r#"{"sender":{"id":"7"}}"#), "7");
    assert_eq!(name(r#"{ "sender": {"name":"A","id":null,"later":1} } "#), "A");
}

#[test]
fn what_resembles_a_sender_line_stays() {
    for body in [
        "{\"sender\":{\"id\":\"1\"}}",
        "{\"sender\":{\"id\":\"1\"}}\n",
        "{\"sender\":{\"id\":\"1\"}}\nhello",
        "{\"sender\":{\"id\":\"1\"}}\n \nhello",
        "\n{\"sender\":{\"id\":\"1\"}}\n\nhello",
        " {\"sender\":{\"id\":\"1\"}}\n\nhello",
        "{\"sender\":{}}\n\nhello",
        "{\"sender\":{\"id\":1}}\n\nhello",
        "{\"sender\":\"1\"}\n\nhello",
        "{\"sender\":[\"1\",\"n\"]}\n\nhello",
        "{\"sender\":null}\n\nhello",
        "{\"sender\":{\"id\":\"1\"},\"event\":\"push\"}\n\nhello",
        "{\"sender\":{\"id\":\"1\"}} hello\n\nhello",
        "{\"sender\":\n{\"id\":\"1\"}}\n\nhello",
        "[{\"sender\":{\"id\":\"1\"}}]\n\nhello",
        "{\n\nhello",
    ] {
        let read = message(&json!(body)).parse().unwrap();
        assert_eq!((read.text.as_str(), read.author), (body, None));
    }
}

#[test]
fn replies() {
    let reply = RawMessage::reply("a\"\0𝄞", Some("stop"), 7);
    let read = reply.parse().unwrap();
    assert_eq!((read.role, read.text.as_str(), read.author), (Role::Assistant, "a\"\0𝄞", None));
    let expected = json!({
        "role": "assistant", "content": [{"type": "text", "text": "a\"\0𝄞"}], "stopReason": "stop",
        "id": "r:reply", "timestamp": 8,
    });
    assert_eq!(reply.to_history("r:reply", 8), expected);
    assert!(RawMessage::reply("", None, 7).to_history("", 0).get("stopReason").is_none());
}

#[test]
fn history_shows_what_came() {
    let entry = |form: Value| message(&form).to_history("id-1", 9);
    let blocks = json!([{"type": "text", "text": "a"}, {"type": "image", "url": "u"}]);
    let cases = [
        (json!("hi"), json!({"role": "user", "content": [{"type": "text", "text": "hi"}]})),
        (json!({"text": "hi", "n": 1}), json!({"role": "user", "content": [{"type": "text", "text": "hi"}], "n": 1})),
        (json!({"role": 5, "content": "hi"}), json!({"role": "user", "content": "hi"})),
        (
            json!({"role": "tool_result", "content": blocks, "timestamp": null, "id": "other", "historyMeta": {"a": 1}}),
            json!({"role": "tool_result", "content": blocks, "historyMeta": {"a": 1}}),
        ),
        // With attachments only.
        (json!({"role": "system"}), json!({"role": "system", "content": [{"type": "text", "text": ""}]})),
    ];
    for (form, mut expected) in cases {
        expected["id"] = "id-1".into();
        expected["timestamp"] = 9.into();
        assert_eq!(entry(form), expected);
    }
}

#[test]
fn a_number_that_no_value_holds_does_not_hide_the_message() {
    let form = RawMessage {
        message: RawValue::from_string(r#"{"text":"hi","n":1e400}"#.into()).unwrap(),
        from: None,
        attachments: None,
    };
    assert_eq!(form.to_history("i", 1)["content"][0]["text"], "hi");
}

#[test]
fn records_keep_it_to_the_letter() {
    let mut form = message(&json!("x"));
    form.message = RawValue::from_string("{ \"text\" : \"\\u0061\", \"n\": 1.00 }".into()).unwrap();
    form.from = Some(raw(&json!({"kind": "bot"})));
    let stored = serde_json::to_vec(&form).unwrap();
    let back: RawMessage = serde_json::from_slice(&stored).unwrap();
    assert_eq!(back.message.get(), form.message.get());
    assert_eq!(back.from.unwrap().get(), r#"{"kind":"bot"}"#);
    assert!(back.attachments.is_none());
}

proptest! {
    #[test]
    fn any_text_survives(text in any::<String>(), cut in any::<usize>()) {
        prop_assume!(!text.starts_with('{'));
        let (a, b) = text.split_at(text.floor_char_boundary(cut % (text.len() + 1)));
        let blocks = json!([{"type": "text", "text": a}, {"type": "x"}, {"type": "text", "text": b}]);
        for form in [json!(text), json!({"text": text}), json!({"content": text}), json!({"content": blocks})] {
            prop_assert_eq!(&message(&form).parse().unwrap().text, &text);
        }
        let reply = RawMessage::reply(&text, None, 1);
        prop_assert_eq!(&reply.parse().unwrap().text, &text);
        let entry = reply.to_history("i", 1);
        prop_assert_eq!(entry["content"][0]["text"].as_str(), Some(text.as_str()));
    }

    #[test]
    fn any_sender_is_taken_off(id in any::<String>(), name in any::<String>(), text in any::<String>()) {
        let body = format!("{}\n\n{text}", json!({"sender": {"id": id, "name": name}}));
        let read = message(&json!(body)).parse().unwrap();
        prop_assert_eq!(read.text, text);
        prop_assert_eq!(read.author.unwrap(), Author { kind: "sender".into(), name, id: Some(id) });
    }
}
