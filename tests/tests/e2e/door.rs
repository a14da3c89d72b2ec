//! Who may come in and what is refused: every refusal is the protocol's envelope and names what is wrong.

use avernest_tests::raw::{Answer, Raw, exchange};
use avernest_tests::{World, eventually};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
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

/// What hyper refuses before any handler sees it.
#[tokio::test]
async fn what_is_no_request_gets_an_envelope_too() {
    let world = World::start().await;
    let base = world.base();
    let good = String::from_utf8(Raw::inject("x").bytes()).unwrap();
    let large = format!("x-large: {}\r\nhost:", "y".repeat(40_000));
    let many: String = (0..150).map(|n| format!("x-{n}: y\r\n")).collect();
    let cases = [
        ("NONSENSE\r\n\r\n".to_owned(), 400, "request line"),
        (good.replace("HTTP/1.1", "HTTP/9.9"), 400, "request line"),
        (good.replace("host:", "ho st:"), 400, "header"),
        (good.replace("host:", "content-length: 7\r\nhost:"), 400, "Content-Length"),
        (good.replace("host:", "content-length: -1\r\nhost:"), 400, "Content-Length"),
        (good.replace("host:", &large), 431, "32 KiB"),
        (good.replace("host:", &format!("{many}host:")), 431, "100"),
    ];
    for (text, status, names) in cases {
        let answer = exchange(&base, text.as_bytes()).await;
        check(&answer, status, "invalid_request", names);
    }
    // And over HTTP/2.
    avernest::network::install_crypto();
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let answer = client.post(format!("{base}/webhook")).header("x-large", "y".repeat(40_000)).send().await.unwrap();
    assert_eq!(answer.status(), 431);
    assert!(answer.text().await.unwrap().contains("32 KiB"));
    assert_eq!(exchange(&base, good.as_bytes()).await.json, json!({"ok": true}));
}

#[tokio::test]
async fn a_client_that_has_closed_its_side_gets_its_answer() {
    let world = World::start().await;
    for n in 0..50 {
        let answer = exchange(&world.base(), &Raw::inject(&format!("half-{n}")).bytes()).await;
        assert_eq!((answer.status, &answer.json), (200, &json!({"ok": true})));
        let refused = Raw::inject("half").header("authorization", None);
        check(&exchange(&world.base(), &refused.bytes()).await, 401, "unauthorized", "Authorization");
    }
    let probe = exchange(&world.base(), b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(probe.status, 200);
}

#[tokio::test]
async fn without_descriptors_it_says_so_once_and_goes_on() {
    let world = World::start().await;
    assert_eq!(world.ask("echo", "s", "hi").await, "You said: hi");
    let pid = world.provider.pid();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let process = Pid::from_raw(i32::try_from(pid).unwrap());
    let limit = |limit: Rlimit| prlimit(process, Resource::Nofile, limit).unwrap();
    let unlimited = getrlimit(Resource::Nofile);
    let before = limit(Rlimit { current: Some(open as u64 + 4), maximum: unlimited.maximum });
    let address = world.base().trim_start_matches("http://").to_owned();
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(tokio::net::TcpStream::connect(&address).await.unwrap());
    }
    let told = || world.provider.log().matches("could not be taken").count();
    eventually("it to be told", async || (told() > 0).then_some(())).await;
    limit(before);
    assert_eq!(world.ask("echo", "s", "hi again").await, "You said: hi again");
    assert_eq!(told(), 1);
}

#[tokio::test]
async fn two_tokens_are_valid_while_one_is_rotated() {
    let world = World::start_with(|o| o.extra_tokens = vec!["the-new-one".into()]).await;
    for (token, status) in [(avernest_tests::world::TOKEN, 200), ("the-new-one", 200), ("the-next", 401)] {
        let request = Raw::inject(&format!("r-{token}")).header("authorization", Some(&format!("Bearer {token}")));
        assert_eq!(request.send(&world.base()).await.status, status);
    }
}
