//! One try, against a server that does anything.

use super::server::{Reply, Request, Server, status};
use super::*;

async fn tried(server: &Server) -> Tried {
    let entry = entry("echo", "r1", 1);
    client(&server.url).post_event(&entry.bot, entry.channel, &entry.bodies[0]).await
}

async fn answer(reply: Reply) -> Tried {
    tried(&Server::start(move |_, _| reply.clone()).await).await
}

fn answered(status: u16, code: Option<&str>, retry_after_ms: Option<u64>) -> Tried {
    Tried::Answered { status, code: code.map(Into::into), retry_after_ms }
}

#[tokio::test]
async fn every_header_of_the_protocol() {
    let server = Server::start(|_, _| status(200)).await;
    let base = format!("{}/gateway/bcs/", server.url);
    let bot = BotRef::parse("my.bot").unwrap();
    let body = CallbackBody { event_id: "e-1".into(), json: "{\"run_id\":\"é\"}".into() };
    let client = BcsClient::new(Some(&base), "prov-1", token("t-1")).unwrap();
    let before = now_ms();
    assert_eq!(client.post_event(&bot, Channel::CallbackV1, &body).await, answered(200, None, None));
    client.set_credentials(Credentials::ProviderAdmin(Secret::new("admin")));
    assert_eq!(client.post_event(&bot, Channel::CallbackV2, &body).await, answered(200, None, None));

    let [first, second] = <[Request; 2]>::try_from(server.seen()).unwrap();
    for request in [&first, &second] {
        assert_eq!(request.line, "POST /gateway/bcs/bot/events HTTP/1.1");
        assert_eq!(request.body, body.json);
        assert_eq!(request.header("content-type"), "application/json");
        assert_eq!(request.header("x-bcn-provider-id"), "prov-1");
        assert_eq!(request.bot(), "my.bot");
        assert_eq!(request.header("x-bcn-event-id"), "e-1");
        let sent: u64 = request.header("x-bcn-timestamp").parse().unwrap();
        assert!((before..=now_ms()).contains(&sent));
    }
    assert_eq!((first.header("authorization"), second.header("authorization")), ("Bearer t-1", "Bearer admin"));
    assert_eq!((first.header("x-bcn-protocol-version"), second.header("x-bcn-protocol-version")), ("1.0", "2.0"));
}

#[tokio::test]
async fn answers_are_told_by_status_and_word() {
    assert_eq!(
        answer(Reply::Status(409, "", r#"{"error":"transport_conflict","message":"m","status":409}"#)).await,
        answered(409, Some("transport_conflict"), None)
    );
    assert_eq!(answer(Reply::Status(503, "Retry-After: 7\r\n", "busy")).await, answered(503, None, Some(7_000)));
    assert_eq!(answer(Reply::Status(429, "Retry-After: soon\r\n", "{}")).await, answered(429, None, None));
    // What could be anything is not repeated.
    assert_eq!(answer(Reply::Status(400, "", r#"{"error":"Bearer the-token"}"#)).await, answered(400, None, None));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start(|_, _| status(200)).await;
    let location: &'static str = format!("Location: {}/bot/events\r\n", other.url).leak();
    for code in [301, 302, 307, 308] {
        assert_eq!(answer(Reply::Status(code, location, "")).await, answered(code, None, None));
    }
    assert_eq!(other.seen().len(), 0);
}

#[tokio::test]
async fn a_status_counts_whatever_becomes_of_its_body() {
    assert_eq!(answer(Reply::Break).await, answered(200, None, None));
    assert_eq!(answer(Reply::Endless).await, answered(200, None, None));
}

#[tokio::test]
async fn no_answer_is_told_without_addresses_and_tokens() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/hidden-path", listener.local_addr().unwrap())
    };
    let hang = Server::start(|_, _| Reply::Hang).await;
    let reset = Server::start(|_, _| Reply::Reset).await;
    let entry = entry("echo", "r1", 1);
    let times = Times { total: Duration::from_millis(200), ..Times::default() };
    for (url, expected) in [
        (gone.as_str(), "no connection to BCS: "),
        (hang.url.as_str(), "BCS did not answer in time: "),
        (reset.url.as_str(), "the connection to BCS broke: "),
    ] {
        let client = BcsClient::with_times(Some(url), "p", token("the-token"), times).unwrap();
        let tried = client.post_event(&entry.bot, entry.channel, &entry.bodies[0]).await;
        let Tried::Failed(why) = &tried else { panic!("{tried:?}") };
        assert!(why.starts_with(expected), "{why}");
        assert!(!why.contains("hidden-path") && !why.contains("the-token") && !why.contains("127.0.0.1:"), "{why}");
        assert!(!format!("{client:?}").contains("the-token"));
    }
}

#[tokio::test]
async fn what_is_not_set_is_named() {
    let entry = entry("echo", "r1", 1);
    let none = Credentials::StaticBearer { default: None, bots: BTreeMap::new() };
    for (url, credentials, setting) in [
        (None, token("t"), "`provider.bcs_url`"),
        (Some("http://127.0.0.1:1"), Credentials::ProviderAdmin(Secret::new("")), "`provider.provider_admin_token`"),
        (Some("http://127.0.0.1:1"), none, "`provider.bot_runtime_token`"),
        (Some("http://127.0.0.1:1"), token("line\nbreak"), "token"),
    ] {
        let client = BcsClient::new(url, "p", credentials).unwrap();
        let tried = client.post_event(&entry.bot, entry.channel, &entry.bodies[0]).await;
        assert!(
            matches!(&tried, Tried::NotConfigured(why) if why.contains(setting) && !why.contains("break")),
            "{tried}"
        );
    }
}
