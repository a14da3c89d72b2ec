//! `chat.send` with an acknowledgement: the callback, its forms, its retries.

use avernest::sim::{AuthMode, Fault, Outcome};
use avernest::wire::Secret;
use avernest::wire::headers::ProtocolVersion;
use avernest_tests::World;
use avernest_tests::world::BOT_TOKEN;

#[tokio::test]
async fn both_versions_acknowledge_first_and_call_back_once() {
    let world = World::start().await;
    for version in [ProtocolVersion::V1, ProtocolVersion::V2] {
        for text in ["echo hello", "fail failed oh dear", "stream 3"] {
            let ack = world.bcs.send("probe", "s", text).version(version).callback().await.unwrap().acked().unwrap();
            let outcome = world.bcs.outcome(&ack.meta.id).await.unwrap();
            match text {
                "echo hello" => assert_eq!(outcome.text(), Some("hello")),
                "stream 3" => assert!(outcome.text().is_some()),
                _ => assert!(matches!(&outcome, Outcome::Error { message, .. } if message.contains("oh dear"))),
            }
            assert_eq!(world.bcs.callbacks(&ack.meta.id).len(), 1);
        }
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_callback_is_tried_until_it_is_taken_with_one_event_id() {
    let world = World::start().await;
    for (n, fault) in [
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(409),
        Fault::Status(404),
        Fault::Close,
        Fault::CloseMidBody,
        Fault::Redirect("http://127.0.0.1:9/elsewhere".into()),
        Fault::HugeBody(3 << 20),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("run-{n}");
        // A spoiled answer under 200 is an answer; anything else is tried again.
        let taken = matches!(fault, Fault::CloseMidBody | Fault::HugeBody(_));
        let rule = fault.times(2).for_run(&id);
        world.bcs.script(if taken { rule.ingested() } else { rule });
        world.bcs.send("probe", "s", "echo x").id(&id).callback().await.unwrap().acked().unwrap();
        assert_eq!(world.bcs.outcome(&id).await.unwrap().text(), Some("x"));
        let callbacks = world.bcs.wait_callbacks(&id, if taken { 1 } else { 3 }).await.unwrap();
        assert!(callbacks.iter().all(|c| c.event_id == callbacks[0].event_id));
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn nothing_is_lost_while_the_server_is_away() {
    let mut world = World::start().await;
    world.bcs.stop_callbacks().await;
    for n in 0..20 {
        let request = world.bcs.send("probe", &format!("s{n}"), "echo kept").id(&format!("away-{n}"));
        request.callback().await.unwrap().acked().unwrap();
    }
    world.crash_and_restart();
    world.bcs.restart_callbacks().await.unwrap();
    for n in 0..20 {
        let outcome = world.bcs.outcome(&format!("away-{n}")).await.unwrap();
        // Those that a kill met at work are reported as failed; none is silent.
        assert!(outcome.is_told());
    }
    world.bcs.assert_clean().unwrap();
}

#[tokio::test]
async fn a_bots_own_token_and_the_providers_are_used() {
    let own = World::start_with(|o| {
        o.bcs.bot_runtime_tokens.insert("probe".into(), Secret::new("own-token"));
        o.settings = "[bots.probe]\nbot_runtime_token = \"own-token\"\n".into();
    })
    .await;
    let admin = World::start_with(|o| {
        o.bcs.auth_mode = AuthMode::ProviderAdmin;
        o.bcs.provider_admin_token = Secret::new("admin-token");
        o.provider = "auth_mode = \"provider_admin\"\nprovider_admin_token = \"admin-token\"\n".into();
    })
    .await;
    for world in [own, admin] {
        let ack = world.bcs.send("probe", "s", "echo x").callback().await.unwrap().acked().unwrap();
        assert_eq!(world.bcs.outcome(&ack.meta.id).await.unwrap().text(), Some("x"));
        world.bcs.assert_clean().unwrap();
        let log = world.provider.log();
        for token in ["own-token", "admin-token", BOT_TOKEN, avernest_tests::world::TOKEN] {
            assert!(!log.contains(token));
        }
    }
}

#[tokio::test]
async fn a_reply_larger_than_a_callback_arrives_whole_in_2_0() {
    let world = World::start().await;
    let ack = world.bcs.send("probe", "s", "say 5000000").callback().await.unwrap().acked().unwrap();
    let outcome = world.bcs.outcome(&ack.meta.id).await.unwrap();
    assert_eq!(outcome.text().map(str::len), Some(5_000_000));
    let one = world.bcs.send("probe", "s", "say 5000000").version(ProtocolVersion::V1).callback().await.unwrap();
    let outcome = world.bcs.outcome(&one.acked().unwrap().meta.id).await.unwrap();
    assert!(outcome.text().is_some_and(|t| t.len() < (2 << 20) && t.contains("5000000")));
    world.bcs.assert_clean().unwrap();
}
