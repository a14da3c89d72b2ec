//! The door: who may come in, what is asked, and one file a method.

mod abort;
mod ack;
mod answering;
mod door;
mod history;
mod inject;
mod ping;
mod resolve;
mod respond;
mod send;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use tokio::sync::watch;

pub use self::ack::FlushWatch;
pub use self::answering::Answering;
pub(crate) use self::answering::keep_until_taken;
pub(crate) use self::respond::refusal;
use crate::bot::BotHost;
use crate::run::Runs;
use crate::wire::{ApiError, ErrorCode, Secret};

/// What the door needs to know.
#[derive(Debug, Clone)]
pub struct DoorOptions {
    /// The webhook's path.
    pub path: String,
    /// This provider's id.
    pub provider_id: String,
    /// The tokens that the server may come with.
    pub tokens: Vec<Secret>,
    /// How far the server's clock may be off.
    pub max_clock_skew: Duration,
    /// The largest body, in bytes.
    pub body_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// The deadline of a run whose request names none.
    pub default_timeout: Duration,
}

/// Everything behind the door. Cheap to clone.
#[derive(Clone)]
pub struct Door(Arc<Inner>);

struct Inner {
    options: DoorOptions,
    runs: Runs,
    bots: Arc<BotHost>,
    state: watch::Sender<DoorState>,
}

/// Whether requests are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DoorState {
    /// Bots are being loaded: requests wait.
    Starting,
    Open,
    /// Requests are refused.
    Closed,
}

impl Door {
    /// A door that lets requests wait until it is opened.
    #[must_use]
    pub fn new(options: DoorOptions, runs: Runs, bots: Arc<BotHost>) -> Self {
        Self(Arc::new(Inner { options, runs, bots, state: watch::Sender::new(DoorState::Starting) }))
    }

    /// Admits requests.
    pub fn open(&self) {
        self.0.state.send_replace(DoorState::Open);
    }

    /// Refuses everything from now on with 503.
    pub fn close(&self) {
        self.0.state.send_replace(DoorState::Closed);
    }

    /// The routes: the webhook, `/healthz`, `/readyz`; an envelope for everything else.
    pub fn router(&self) -> Router {
        Router::new().fallback(entry).with_state(self.clone())
    }
}

/// Every request comes here, so that no refusal is anybody else's.
async fn entry(State(door): State<Door>, request: Request) -> Response {
    if request.method() == http::Method::POST && request.uri().path() == door.0.options.path {
        return door::webhook(&door.0, request).await;
    }
    let answering = request.extensions().get::<Answering>().cloned().unwrap_or_default();
    let under_way = answering.begin();
    let reading = matches!(*request.method(), http::Method::GET | http::Method::HEAD);
    let path = request.uri().path().to_owned();
    keep_until_taken(under_way, door.elsewhere(&path, reading).await)
}

fn wrong_method(right: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, format!("This path takes {right} requests only.")).with_status(405)
}

impl Door {
    /// Everything that is no POST to the webhook.
    async fn elsewhere(&self, path: &str, reading: bool) -> Response {
        match path {
            "/healthz" if reading => respond::plain(StatusCode::OK, "ok\n"),
            "/readyz" if reading => self.readiness().await,
            "/healthz" | "/readyz" => respond::refusal(&wrong_method("GET"), Some("GET, HEAD")),
            path if path == self.0.options.path => respond::refusal(&wrong_method("POST"), Some("POST")),
            _ => respond::refusal(
                &ApiError::invalid(format!(
                    "There is nothing at this path. The webhook is at {}, health at /healthz and /readyz.",
                    self.0.options.path
                ))
                .with_status(404),
                None,
            ),
        }
    }

    async fn readiness(&self) -> Response {
        match *self.0.state.borrow() {
            DoorState::Starting => return respond::plain(StatusCode::SERVICE_UNAVAILABLE, "loading bots\n"),
            DoorState::Closed => return respond::plain(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
            DoorState::Open => {}
        }
        match self.0.runs.store().stats().await {
            Ok(_) => respond::plain(StatusCode::OK, "ready\n"),
            Err(_) => respond::plain(StatusCode::SERVICE_UNAVAILABLE, "the data store has failed; see the log\n"),
        }
    }
}
