//! What goes in and what comes out.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn texts_survive_unchanged() {
    let stage = Stage::new("probe").await;
    for text in ["hello", "", "4-byte 🦀𐍈", "CR\r\nLF\n", "nul\0here", "\u{feff}bom"] {
        let end = stage.send(&format!("echo {text}")).await;
        assert_eq!(end.result.unwrap(), Reply { text: text.into(), stop_reason: None });
        assert!(end.report.memory_peak > 0 && end.report.wall > Duration::ZERO && end.report.cpu > Duration::ZERO);
        assert!(end.report.instantiate <= end.report.wall);
    }
    let long = "x🦀".repeat(1_000_000);
    assert_eq!(stage.reply(&format!("echo {long}")).await, long);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bot_sees_what_it_was_given_and_nothing_else() {
    let stage = Stage::new("probe").await;
    let seen: serde_json::Value = serde_json::from_str(&stage.reply("request").await).unwrap();
    assert_eq!(
        seen,
        serde_json::json!({
            "id": "request-1", "session": "session-1", "group": "group-1", "tags": ["a", "b"], "deadline": 99,
            "extensions": {"x": 1}, "environment": 0, "arguments": 0,
            "message": {
                "role": "user", "text": "request", "timestamp": 42, "attachments": [],
                "author": {"kind": "sender", "name": "Mia", "id": null},
                "json": {"role": "user", "content": "request"},
            },
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deltas_come_in_order() {
    let stage = Stage::new("probe").await;
    assert_eq!(stage.reply("stream 500").await, "");
    let events = stage.events.0.lock().unwrap();
    let expected: Vec<Event> = (1..=500).map(|n| Event::Delta(format!("{n} "))).collect();
    assert_eq!(*events, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_progress_arrives() {
    let stage = Stage::new("probe").await;
    stage.reply("think hm").await;
    stage.reply("phase").await;
    stage.reply(r#"tool {"a":[1]}"#).await;
    stage.reply("tool no json").await;
    let mut events = stage.events.0.lock().unwrap().clone();
    for event in &mut events {
        if let Event::ToolFinished { duration_ms, .. } = event {
            assert!(duration_ms.take().is_some());
        }
    }
    let tool = |arguments: serde_json::Value, output: &str| {
        let (call, name) = ("call-1".to_owned(), Some("probe".to_owned()));
        [
            Event::ToolStarted { call: call.clone(), name: "probe".into(), arguments },
            Event::ToolUpdated { call: call.clone(), name: name.clone(), partial: "half way".into() },
            Event::ToolFinished { call, name, output: output.into(), is_error: false, duration_ms: None },
        ]
    };
    let mut expected = vec![
        Event::Thinking("hm".into()),
        Event::Phase { previous: String::new(), next: "planning".into() },
        Event::Phase { previous: "planning".into(), next: "working".into() },
    ];
    expected.extend(tool(serde_json::json!({"a": [1]}), r#"{"a":[1]}"#));
    expected.extend(tool("no json".into(), "no json"));
    assert_eq!(events, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_keeps_its_kind() {
    let stage = Stage::new("probe").await;
    assert_eq!(stage.error("fail rejected no").await, CallError::Rejected("no".into()));
    assert_eq!(stage.error("fail unavailable later").await, CallError::Unavailable("later".into()));
    assert_eq!(stage.error("fail failed oh").await, CallError::Failed("oh".into()));
    let CallError::Rejected(text) = stage.error("nonsense").await else { panic!() };
    assert!(text.contains("Commands: echo T, "), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_is_told_in_words() {
    let stage = Stage::new("probe").await;
    let CallError::Trap(text) = stage.error("trap").await else { panic!() };
    assert!(text.starts_with("The bot trapped: wasm trap: wasm `unreachable` instruction executed."), "{text}");
    let end = stage.send("panic the sky falls").await;
    let CallError::Trap(text) = end.result.unwrap_err() else { panic!() };
    // Where it was and what it said is for the bot's author, not for the network.
    assert!(!text.contains("the sky falls") && !text.contains("0x"), "{text}");
    assert!(end.report.stderr_tail.contains("the sky falls"));
    assert!(end.report.backtrace.unwrap().contains("0:"));
    // And the next call is none the worse for it.
    assert_eq!(stage.reply("echo still here").await, "still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_read_through_the_calls_own_writes_and_kept_with_the_reply() {
    let stage = Stage::new("probe").await;
    for expected in ["1", "2", "3"] {
        assert_eq!(stage.reply("count").await, expected);
    }
    stage.reply("set b two words").await;
    stage.reply("set a x").await;
    assert_eq!(stage.reply("get b").await, "two words");
    assert_eq!(stage.reply("keys ").await, "a\nb\ncount");
    assert_eq!(stage.reply("keys c").await, "count");
    let end = stage.send("del a").await;
    assert_eq!(end.writes, [StateWrite { key: "a".into(), value: None }]);
    assert_eq!(stage.reply("get a").await, "(none)");
    assert_eq!(stage.send("fail failed x").await.writes, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_gives_the_newest_messages() {
    let stage = Stage::new("probe").await;
    stage.session.messages.lock().unwrap().extend((0..5).map(|n| message(&format!("m{n}"), n)));
    let seen: serde_json::Value = serde_json::from_str(&stage.reply("history 2").await).unwrap();
    let texts: Vec<&str> = seen.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["m3", "m4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_read_is_the_hosts_failure() {
    let mut stage = Stage::new("probe").await;
    stage.session = Arc::new(Session { broken: true, ..Session::default() });
    let CallError::Internal(text) = stage.error("get x").await else { panic!() };
    assert!(text.contains("the disk is on fire"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_go_to_the_bots_log() {
    let stage = Stage::new("probe").await;
    stage.reply("log warn careful").await;
    stage.reply("stderr to stderr").await;
    let lines = stage.lines.0.lock().unwrap();
    assert_eq!(
        *lines,
        [
            (LogLevel::Warn, LogSource::Log, "careful".to_owned()),
            (LogLevel::Warn, LogSource::Stderr, "to stderr".to_owned()),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inject_writes_state_and_says_nothing() {
    let stage = Stage::new("probe").await;
    let end = stage.inject("note this").await;
    assert_eq!(end.result, Ok(Reply { text: String::new(), stop_reason: None }));
    assert_eq!(end.writes, [StateWrite { key: "injected".into(), value: Some(b"note this".to_vec()) }]);
    let error = stage.inject("inject-fail").await.result.unwrap_err();
    assert!(matches!(error, CallError::Failed(_)), "{error:?}");
    assert_eq!(*stage.events.0.lock().unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn echo_streams_words_and_remembers_what_was_injected() {
    let stage = Stage::new("echo").await;
    assert_eq!(stage.reply("hello there").await, "You said: hello there");
    let said: String = stage
        .events
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|event| match event {
            Event::Delta(text) => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(said, "You said: hello there");
    assert_eq!(stage.events.0.lock().unwrap().len(), 4);
    assert!(stage.reply("what do you know?").await.contains("nothing"));
    for (text, at) in [("the key is under the mat", 42), ("asked before", 43)] {
        stage.session.messages.lock().unwrap().push(message(text, at));
    }
    let end = stage.inject("the key is under the mat").await;
    stage.session.commit(end.writes);
    assert_eq!(stage.reply("What do you REMEMBER?").await, "I remember 1 thing:\n- the key is under the mat");
}
