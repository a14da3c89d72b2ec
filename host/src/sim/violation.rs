//! The rules that the simulated server watches, and what it notes when one is broken.

use std::fmt;

macro_rules! kinds {
    ($($kind:ident $name:literal $rule:literal,)*) => {
        /// A rule of the protocol, by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ViolationKind {
            $(#[doc = $rule] $kind,)*
        }

        impl ViolationKind {
            /// The rule's stable name, in snake case.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// The rule as a sentence.
            #[must_use]
            pub fn rule(self) -> &'static str {
                match self { $(Self::$kind => $rule,)* }
            }

            /// Every rule that is watched.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }
    };
}

kinds! {
    // Answers to requests.
    AckShape "ack_shape" "A 2xx answer is a JSON object with a boolean `ok`.",
    AckErrorObject "ack_error_object" "Under 2xx, `error` is a string or absent: an object cannot be decoded.",
    RefusedUnder2xx "refused_under_2xx" "A refused request is answered with 4xx or 5xx, not with 2xx and `ok:false`.",
    SseNotAsked "sse_not_asked" "An event stream answers only a request that accepts one.",
    AnswerContentType "answer_content_type" "A JSON answer says `Content-Type: application/json`.",
    ContentEncoding "content_encoding" "Bodies are sent as they are: the server asks for no compression and undoes none.",
    Redirected "redirected" "The webhook answers itself: redirects are not followed.",
    ErrorEnvelope "error_envelope" "A refusal has the guide's error envelope, with the status and `retryable` of its code.",
    SlowHeaders "slow_headers" "Headers or acknowledgement come within the server's bound.",
    HistoryShape "history_shape" "`chat.history` is answered with `ok`, `messages`, `has_more` and cursors of the right form.",
    AbortShape "abort_shape" "`chat.abort` is answered with `aborted` and `aborted_run_ids` that agree.",
    ScopeMismatch "scope_mismatch" "The aborted runs are runs of that bot and session.",
    OutcomeDiffers "outcome_differs" "A run has one end, and everything that tells of it says the same.",
    // The event stream.
    FrameTooLarge "frame_too_large" "A frame has at most 8 MiB, separator included.",
    FrameWithoutName "frame_without_name" "Every frame has an `event:` line: one without is dropped.",
    UnknownEvent "unknown_event" "Events are agent, chat, ping and interaction: any other is dropped.",
    DataNotJson "data_not_json" "`data:` is a JSON object: anything else is dropped.",
    SeqMissing "seq_missing" "Every event but ping has a `seq`.",
    SeqNotRising "seq_not_rising" "`seq` rises strictly: a repeated or smaller one is dropped, a terminal too.",
    SeqGap "seq_gap" "`seq` begins with 1 and has no gaps.",
    SeqIdDiffers "seq_id_differs" "The `id:` line, if there is one, is the `seq`.",
    RunIdMissing "run_id_missing" "Every event but ping has a `runId`; an agent event without one is dropped.",
    RunIdChanged "run_id_changed" "`runId` is the same in all events of a run.",
    TsMissing "ts_missing" "Every event has `ts`, in Unix milliseconds.",
    ChatState "chat_state" "A chat event's `state` is delta, final, error or aborted: any other is dropped.",
    ChatDelta "chat_delta" "A delta has its text in `deltaText`; `delta_text`, if sent too, is the same.",
    ChatError "chat_error" "A chat error has an `errorMessage`.",
    ChatField "chat_field" "`stopReason`, `errorMessage`, `errorKind` and `errorCode` are strings.",
    MessageShape "message_shape" "A `message` has a `role`, a `content` array and a non-negative whole `timestamp`: else it is lost.",
    SeveralBlocks "several_blocks" "A message has its whole text in the first content block: the others are not read.",
    FinalNotPrefix "final_not_prefix" "The text of a final begins with the text of the deltas: else it is appended to it.",
    AgentStream "agent_stream" "An agent event has a known `stream`: any other is dropped.",
    ToolShape "tool_shape" "A tool event has `phase` start, update or result, `toolCallId`, and the fields of its phase.",
    ThinkingShape "thinking_shape" "A thinking event has `delta` or `text`, a string.",
    LifecycleShape "lifecycle_shape" "A lifecycle event has `phase` start or end.",
    PhaseShape "phase_shape" "A phase event has `fromPhase` and `toPhase`, strings.",
    ApprovalSent "approval_sent" "`stream:\"approval\"` is never sent: it ends the run.",
    InteractionShape "interaction_shape" "An interaction has the fields of its kind and phase: else it is dropped.",
    InteractionOrder "interaction_order" "An interaction is requested once, and resolved at most once, after that, with the same kind.",
    InteractionLimit "interaction_limit" "A requested interaction has at most 256 KiB, and a run at most 32 that are open.",
    AfterTerminal "after_terminal" "Nothing follows the terminal event.",
    NoTerminal "no_terminal" "A stream ends with a terminal event: else the server makes up an error.",
    StreamBroken "stream_broken" "A stream ends cleanly.",
    StreamSilent "stream_silent" "A stream is never silent for longer than the server waits.",
    StreamLeftOpen "stream_left_open" "A stream is closed after its terminal event.",
    DeadlineMissed "deadline_missed" "A run ends at its deadline (`timeout_ms`) by itself.",
    // Callbacks.
    CallbackPath "callback_path" "Callbacks are POSTs to `/bot/events`.",
    CallbackContentType "callback_content_type" "A callback has `Content-Type: application/json`.",
    CallbackTooLarge "callback_too_large" "A callback body has at most 2 MiB.",
    CallbackShape "callback_shape" "A callback body is JSON of the legacy or the streaming form.",
    CallbackState "callback_state" "The legacy form knows final, error and aborted.",
    CallbackHeader "callback_header" "A callback has the guide's headers, with the right values.",
    CallbackAuth "callback_auth" "A callback has the token of its bot or provider, as the auth mode says.",
    CallbackBeforeAck "callback_before_ack" "No callback is sent before the acknowledgement has been.",
    CallbackOnSse "callback_on_sse" "No callback is sent for a run whose events go over SSE.",
    CallbackUnknownRun "callback_unknown_run" "Callbacks are for runs that the provider has accepted.",
    CallbackAfterTerminal "callback_after_terminal" "Nothing is sent after the callback that ends a run.",
    CallbackRepeated "callback_repeated" "A callback that was answered 200 is not sent again.",
    CallbackRetried "callback_retried" "A callback that was refused for good (400, 401, 403, 410, 415, 422) is not sent again.",
    EventIdReused "event_id_reused" "An event id stands for one body.",
    EventIdChanged "event_id_changed" "A retried callback keeps its event id.",
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub kind: ViolationKind,
    /// The run or request it happened in, if it is known.
    pub run_id: Option<String>,
    /// What happened, as a sentence.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if let Some(id) = &self.run_id {
            write!(f, " in {id}")?;
        }
        write!(f, ": {} ({})", self.detail, self.kind.rule())
    }
}

/// What a check that knows no run notes: the rule, and what happened.
pub(super) type Notes = Vec<(ViolationKind, String)>;
