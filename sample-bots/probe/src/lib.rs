//! Does what its text says: for tests, and for people who want to see what the host does with a bot.

wit_bindgen::generate!({ path: "../../wit", world: "bot" });

mod commands;
mod show;

use avernest::bot::types::{Failure, Message, Reply, Request};

struct Probe;

impl exports::avernest::bot::chat::Guest for Probe {
    fn send(request: Request, message: Message) -> Result<Reply, Failure> {
        commands::run(&request, &message)
    }

    fn inject(_: Request, message: Message) -> Result<(), Failure> {
        commands::inject(&message.text)
    }
}

export!(Probe);
