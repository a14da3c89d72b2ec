//! Who may come in and what is refused: every refusal is the protocol's envelope and names what is wrong.

use avernest_tests::World;
use avernest_tests::raw::{Answer, Raw};
use serde_json::{Value, json};

fn check(answer: &Answer, status: u16, code: &str, names: &str) {
    assert_eq!(answer.status, status, "{:?}", answer.json);
    assert_eq!(answer.json["ok"], json!(false), "{:?}", answer.json);
    assert_eq!(answer.code(), code, "{:?}", answer.json);
    assert!(answer.message().contains(names), "`{names}` is not in: {}", answer.message());
    assert!(answer.json["error"]["retryable"].is_boolean());
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("application/json"));
}

#[tokio::test]
async fn each_header_is_checked_and_named() {
    let world = World::start().await;
    let base = world.base();
    let cases: [(&str, Option<&str>, u16, &str, &str); 12] = [
        ("authorization", None, 401, "unauthorized", "Authorization"),
        ("authorization", Some("Bearer wrong"), 401, "unauthorized", "Authorization"),
        ("authorization", Some("Basic dDp0"), 401, "unauthorized", "Authorization"),
        ("content-type", None, 400, "invalid_request", "Content-Type"),
        ("content-type", Some("text/plain"), 400, "invalid_request", "Content-Type"),
        ("x-bcn-protocol-version", None, 400, "invalid_request", "X-BCN-Protocol-Version"),
        ("x-bcn-protocol-version", Some("3.0"), 400, "invalid_request", "X-BCN-Protocol-Version"),
        ("x-bcn-timestamp", None, 400, "invalid_request", "X-BCN-Timestamp"),
        ("x-bcn-timestamp", Some("yesterday"), 400, "invalid_request", "X-BCN-Timestamp"),
        ("x-bcn-timestamp", Some("0"), 400, "invalid_request", "X-BCN-Timestamp"),
        ("x-bcn-timestamp", Some("-5"), 400, "invalid_request", "X-BCN-Timestamp"),
        ("x-bcn-timestamp", Some("99999999999999999999999"), 400, "invalid_request", "X-BCN-Timestamp"),
    ];
    for (name, value, status, code, names) in cases {
        let answer = Raw::inject("h1").header(name, value).send(&base).await;
        check(&answer, status, code, names);
    }
    assert_eq!(Raw::inject("h1").send(&base).await.json, json!({"ok": true}));
    // The scheme's case is free (RFC 9110, section 11.1).
    let token = format!("bearer {}", avernest_tests::world::TOKEN);
    assert_eq!(Raw::inject("h2").header("authorization", Some(&token)).send(&base).await.status, 200);
}

#[tokio::test]
async fn each_field_is_checked_and_named() {
    let world = World::start().await;
    let base = world.base();
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 14] = [
        (|b| b["type"] = json!("event"), "`type`"),
        (|b| drop(b.as_object_mut().unwrap().remove("id")), "`id`"),
        (|b| b["id"] = json!(""), "`id`"),
        (|b| b["id"] = json!(7), "`id`"),
        (|b| drop(b.as_object_mut().unwrap().remove("method")), "`method`"),
        (|b| drop(b.as_object_mut().unwrap().remove("to_bot")), "`to_bot`"),
        (|b| b["to_bot"] = json!("echo"), "`to_bot`"),
        (|b| b["to_bot"]["provider_id"] = json!(1), "`to_bot.provider_id`"),
        (|b| b["to_bot"]["provider_bot_ref"] = json!(null), "`to_bot.provider_bot_ref`"),
        (|b| drop(b.as_object_mut().unwrap().remove("session_id")), "`session_id`"),
        (|b| b["to_bot"]["tags"] = json!("a"), "`to_bot.tags`"),
        (|b| drop(b.as_object_mut().unwrap().remove("message")), "`message`"),
        (|b| b["timeout_ms"] = json!("soon"), "`timeout_ms`"),
        (|b| b["extensions"] = json!([]), "`extensions`"),
    ];
    for (edit, names) in cases {
        check(&Raw::inject("f1").edit(edit).send(&base).await, 400, "invalid_request", names);
    }
    let mut broken = Raw::inject("f1");
    broken.body.truncate(40);
    check(&broken.send(&base).await, 400, "invalid_request", "JSON");
    let mut empty = Raw::inject("f1");
    empty.body.clear();
    check(&empty.send(&base).await, 400, "invalid_request", "JSON");
    let mut deep = Raw::inject("f1");
    deep.body = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000)).into_bytes();
    check(&deep.send(&base).await, 400, "invalid_request", "");
    let other = Raw::inject("f1").edit(|b| b["to_bot"]["provider_id"] = json!("someone-else"));
    check(&other.send(&base).await, 403, "provider_id_mismatch", "`to_bot.provider_id`");
    let unknown = Raw::inject("f1").edit(|b| b["method"] = json!("chat.dance"));
    check(&unknown.send(&base).await, 501, "unsupported_method", "`method`");
    let nobody = Raw::inject("f1").edit(|b| b["to_bot"]["provider_bot_ref"] = json!("nobody"));
    check(&nobody.send(&base).await, 404, "bot_not_found", "`to_bot.provider_bot_ref`");
    let odd = Raw::inject("f1").edit(|b| b["to_bot"]["provider_bot_ref"] = json!("../echo"));
    check(&odd.send(&base).await, 400, "invalid_request", "`to_bot.provider_bot_ref`");
    // Nothing of all this claimed the id.
    assert_eq!(Raw::inject("f1").send(&base).await.json, json!({"ok": true}));
}

#[tokio::test]
async fn the_checks_come_in_their_order() {
    let world = World::start().await;
    let base = world.base();
    let mut all_wrong = Raw::inject("o1")
        .edit(|b| {
            b["to_bot"] = json!({"provider_id": "other", "provider_bot_ref": "nobody"});
            b["method"] = json!("chat.dance");
        })
        .header("x-bcn-protocol-version", Some("9"))
        .header("x-bcn-timestamp", Some("0"));
    let right_body = all_wrong.body.clone();
    all_wrong.body = b"{".to_vec();
    let wrong_token = all_wrong.clone().header("authorization", Some("Bearer no"));
    check(&wrong_token.send(&base).await, 401, "unauthorized", "");
    check(&all_wrong.clone().send(&base).await, 400, "invalid_request", "JSON");
    all_wrong.body = right_body;
    check(&all_wrong.clone().send(&base).await, 400, "invalid_request", "Protocol-Version");
    let request = all_wrong.header("x-bcn-protocol-version", Some("1.0"));
    check(&request.clone().send(&base).await, 400, "invalid_request", "Timestamp");
    let now = avernest::clock::now_ms().to_string();
    let request = request.header("x-bcn-timestamp", Some(&now));
    check(&request.clone().send(&base).await, 403, "provider_id_mismatch", "");
    let request = request.edit(|b| b["to_bot"]["provider_id"] = json!(avernest_tests::world::PROVIDER));
    check(&request.clone().send(&base).await, 501, "unsupported_method", "");
    let request = request.edit(|b| b["method"] = json!("chat.abort"));
    check(&request.send(&base).await, 404, "bot_not_found", "");
}

#[tokio::test]
async fn the_http_layers_own_refusals_are_envelopes_too() {
    let world = World::start_with(|o| o.settings = "[limits]\nmax_body_mb = 1\n".into()).await;
    let base = world.base();
    let mut get = Raw::inject("x");
    get.method = reqwest::Method::GET;
    let answer = get.send(&base).await;
    check(&answer, 405, "invalid_request", "POST");
    assert_eq!(answer.headers["allow"], "POST");
    let mut elsewhere = Raw::inject("x");
    elsewhere.path = "/elsewhere".into();
    check(&elsewhere.send(&base).await, 404, "invalid_request", "/webhook");
    let large = Raw::inject("x").edit(|b| b["message"] = json!("x".repeat(2 << 20)));
    check(&large.send(&base).await, 413, "invalid_request", "max_body_mb");
    for path in ["/healthz", "/readyz"] {
        let mut probe = Raw::inject("x").header("authorization", None);
        probe.method = reqwest::Method::GET;
        probe.path = path.into();
        assert_eq!(probe.send(&base).await.status, 200, "{path}");
    }
    let mut posted = Raw::inject("x");
    posted.path = "/healthz".into();
    check(&posted.send(&base).await, 405, "invalid_request", "GET");
}

#[tokio::test]
async fn two_tokens_are_valid_while_one_is_rotated() {
    let world = World::start_with(|o| o.extra_tokens = vec!["the-new-one".into()]).await;
    for (token, status) in [(avernest_tests::world::TOKEN, 200), ("the-new-one", 200), ("the-next", 401)] {
        let request = Raw::inject(&format!("r-{token}")).header("authorization", Some(&format!("Bearer {token}")));
        assert_eq!(request.send(&world.base()).await.status, status);
    }
}
