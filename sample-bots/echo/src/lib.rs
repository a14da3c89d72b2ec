//! Says back what it hears, word by word, and remembers what was injected.

wit_bindgen::generate!({ path: "../../wit", world: "bot" });

use avernest::bot::types::{Failure, Message, Reply, Request};
use avernest::bot::{progress, session};

struct Echo;

impl exports::avernest::bot::chat::Guest for Echo {
    fn send(_: Request, message: Message) -> Result<Reply, Failure> {
        let answer = if asks_for_memory(&message.text) { recall() } else { format!("You said: {}", message.text) };
        for word in answer.split_inclusive(char::is_whitespace) {
            progress::delta(word);
        }
        Ok(Reply { text: answer, stop_reason: Some("end_turn".into()) })
    }

    /// Notes the injected message's place in the transcript: the message itself is kept there.
    fn inject(_: Request, message: Message) -> Result<(), Failure> {
        session::set(&format!("injected/{:020}", message.timestamp), &[]);
        let keys = session::keys("injected/");
        for old in keys.iter().take(keys.len().saturating_sub(REMEMBERED)) {
            session::delete(old);
        }
        Ok(())
    }
}

/// How many injected messages are remembered.
const REMEMBERED: usize = 100;

fn asks_for_memory(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("remember") || text.contains("what do you know")
}

fn recall() -> String {
    let noted: Vec<u64> =
        session::keys("injected/").iter().filter_map(|key| key.strip_prefix("injected/")?.parse().ok()).collect();
    let injected: Vec<Message> =
        session::history(1000).into_iter().filter(|message| noted.contains(&message.timestamp)).collect();
    match injected.len() {
        0 => "I remember nothing: nothing was injected into this session.".into(),
        n => {
            let list: String = injected.iter().map(|message| format!("\n- {}", message.text)).collect();
            format!("I remember {n} {}:{list}", if n == 1 { "thing" } else { "things" })
        }
    }
}

export!(Echo);
