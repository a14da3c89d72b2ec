//! The commands: the first word says which, the rest is what it works on.

use std::hint::black_box;
use std::str::FromStr;
use std::time::Duration;

use crate::avernest::bot::logging::{self, Level};
use crate::avernest::bot::types::{Failure, Message, Reply, Request};
use crate::avernest::bot::{progress, session};
use crate::show;

const COMMANDS: &str = "echo T, stream N, spin, wait MS, fail rejected|unavailable|failed T, trap, panic T, alloc MB, \
    say N, history N, set K V, get K, del K, keys P, count, log LEVEL T, think T, tool T, phase, stderr T, request";

pub fn run(request: &Request, message: &Message) -> Result<Reply, Failure> {
    let text = message.text.as_str();
    let (command, rest) = split(text);
    match command {
        "echo" => say(rest),
        "stream" => stream(number(rest)?),
        "spin" => spin(),
        "wait" => wait(number(rest)?),
        "fail" => fail(rest),
        "trap" => trap(),
        "panic" => panic!("{rest}"),
        "alloc" => alloc(number(rest)?),
        "say" => say(&"x".repeat(number(rest)?)),
        "history" => say(&show::history(&session::history(number(rest)?))),
        "set" => {
            let (key, value) = split(rest);
            session::set(key, value.as_bytes());
            say(&format!("{key} = {value}"))
        }
        "get" => match session::get(rest) {
            Some(value) => say(&String::from_utf8_lossy(&value)),
            None => say("(none)"),
        },
        "del" => {
            session::delete(rest);
            say(&format!("{rest} is gone"))
        }
        "keys" => say(&session::keys(rest).join("\n")),
        "count" => count(),
        "log" => log(rest),
        "think" => {
            progress::thinking(rest);
            say("I thought.")
        }
        "tool" => tool(rest),
        "phase" => {
            progress::phase("", "planning");
            progress::phase("planning", "working");
            say("Two phases.")
        }
        "stderr" => {
            eprintln!("{rest}");
            say("Written to stderr.")
        }
        "request" => say(&show::request(request, message)),
        _ => Err(Failure::Rejected(format!("There is no command {command:?}. Commands: {COMMANDS}."))),
    }
}

pub fn inject(text: &str) -> Result<(), Failure> {
    match split(text).0 {
        "inject-fail" => Err(Failure::Failed("The injected text asked for a failure.".into())),
        "inject-spin" => spin(),
        _ => {
            session::set("injected", text.as_bytes());
            Ok(())
        }
    }
}

/// The first word, and what follows the one white space after it.
fn split(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

fn number<T: FromStr>(text: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|_| Failure::Rejected(format!("{text:?} is no number that this command takes.")))
}

fn say(text: &str) -> Result<Reply, Failure> {
    Ok(Reply { text: text.into(), stop_reason: None })
}

fn stream(pieces: u64) -> Result<Reply, Failure> {
    for piece in 1..=pieces {
        progress::delta(&format!("{piece} "));
    }
    say("")
}

fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

fn wait(ms: u64) -> Result<Reply, Failure> {
    std::thread::sleep(Duration::from_millis(ms));
    say(&format!("Waited {ms} ms."))
}

fn fail(rest: &str) -> Result<Reply, Failure> {
    let (kind, text) = split(rest);
    Err(match kind {
        "rejected" => Failure::Rejected(text.into()),
        "unavailable" => Failure::Unavailable(text.into()),
        "failed" => Failure::Failed(text.into()),
        _ => Failure::Rejected(format!("fail takes rejected, unavailable or failed, not {kind:?}.")),
    })
}

fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

fn alloc(mib: usize) -> Result<Reply, Failure> {
    let mut block = Vec::new();
    for _ in 0..mib {
        block.push(black_box(vec![1_u8; 1024 * 1024]));
    }
    say(&format!("{} MiB are mine.", block.len()))
}

fn count() -> Result<Reply, Failure> {
    let before: u64 =
        session::get("count").and_then(|value| String::from_utf8(value).ok()?.parse().ok()).unwrap_or_default();
    let now = before + 1;
    session::set("count", now.to_string().as_bytes());
    say(&now.to_string())
}

fn log(rest: &str) -> Result<Reply, Failure> {
    let (level, text) = split(rest);
    let level = match level {
        "trace" => Level::Trace,
        "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" => Level::Warn,
        "error" => Level::Error,
        _ => return Err(Failure::Rejected(format!("There is no level {level:?}."))),
    };
    logging::log(level, text);
    say("Logged.")
}

fn tool(text: &str) -> Result<Reply, Failure> {
    progress::tool_started("call-1", "probe", text);
    progress::tool_updated("call-1", "half way");
    progress::tool_finished("call-1", text, false);
    say("The tool is done.")
}
