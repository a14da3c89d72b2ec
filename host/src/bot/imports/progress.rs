//! `avernest:bot/progress`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::bot::bindings::avernest::bot::progress::Host;
use crate::bot::call::EventSink;
use crate::bot::guest::GuestState;
use crate::bot::limits::LimitHit;
use crate::wire::Event;

/// What an event counts besides its texts: it costs more than they do.
const EVENT_COST: usize = 32;

/// Tools that are open at once and get their name and time.
const OPEN_TOOLS: usize = 256;

/// Longer arguments are not read as JSON: a tree of values takes ten times its text.
const ARGUMENTS: usize = 256 * 1024;

/// What a call has said so far.
pub(in crate::bot) struct Output {
    sink: Option<Arc<dyn EventSink>>,
    used: usize,
    tools: HashMap<String, (String, Instant)>,
}

impl Output {
    pub(in crate::bot) fn new(sink: Option<Arc<dyn EventSink>>) -> Self {
        Self { sink, used: 0, tools: HashMap::new() }
    }
}

impl GuestState {
    /// Counts bytes of output; over the limit, the trap to end the call with.
    pub(in crate::bot) fn take_output(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.output.used = self.output.used.saturating_add(bytes);
        let limit = self.limits.output_bytes;
        if self.output.used <= limit {
            return Ok(());
        }
        let what = format!("The bot's reply and progress came to {} bytes", self.output.used);
        Err(self.over(LimitHit::new(&what, limit, "bytes", "limits.output_mb")))
    }

    fn say(&mut self, bytes: usize, event: impl FnOnce(&mut Output) -> Event) -> wasmtime::Result<()> {
        self.check_host_data(bytes)?;
        self.take_output(bytes.saturating_add(EVENT_COST))?;
        if let Some(sink) = self.output.sink.clone() {
            sink.emit(event(&mut self.output));
        }
        Ok(())
    }
}

impl Host for GuestState {
    fn delta(&mut self, text: String) -> wasmtime::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.say(text.len(), |_| Event::Delta(text))
    }

    fn thinking(&mut self, text: String) -> wasmtime::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.say(text.len(), |_| Event::Thinking(text))
    }

    fn tool_started(&mut self, call: String, name: String, arguments: String) -> wasmtime::Result<()> {
        self.say(call.len() + name.len() + arguments.len(), |output| {
            if output.tools.len() < OPEN_TOOLS || output.tools.contains_key(&call) {
                output.tools.insert(call.clone(), (name.clone(), Instant::now()));
            }
            Event::ToolStarted { call, name, arguments: read_arguments(arguments) }
        })
    }

    fn tool_updated(&mut self, call: String, partial: String) -> wasmtime::Result<()> {
        self.say(call.len() + partial.len(), |output| {
            let name = output.tools.get(&call).map(|(name, _)| name.clone());
            Event::ToolUpdated { call, name, partial }
        })
    }

    fn tool_finished(&mut self, call: String, output: String, is_error: bool) -> wasmtime::Result<()> {
        self.say(call.len() + output.len(), |said| {
            let (name, began) = said.tools.remove(&call).unzip();
            let duration_ms = began.map(|began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            Event::ToolFinished { call, name, output, is_error, duration_ms }
        })
    }

    fn phase(&mut self, previous: String, next: String) -> wasmtime::Result<()> {
        self.say(previous.len() + next.len(), |_| Event::Phase { previous, next })
    }
}

fn read_arguments(text: String) -> Value {
    let read = if text.len() <= ARGUMENTS { serde_json::from_str(&text).ok() } else { None };
    read.unwrap_or(Value::String(text))
}
