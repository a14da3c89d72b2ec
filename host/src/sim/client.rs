//! The HTTP clients: shared by all requests, made when first used.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Client;

use super::error::SimError;

/// Over which HTTP a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Http {
    /// What the newest server does for JSON: HTTP/1.1, or what TLS negotiates.
    Negotiated,
    /// HTTP/1.1 only.
    One,
    /// HTTP/2 with prior knowledge: what older servers do for event streams.
    Two,
}

type Slot = OnceLock<Result<Client, SimError>>;

/// The clients of one simulated server.
#[derive(Debug)]
pub(super) struct Clients {
    negotiated: Slot,
    one: Slot,
    two: Vec<Slot>,
    turn: AtomicUsize,
}

impl Clients {
    /// Clients of which HTTP/2 has this many connections, at least one.
    pub(super) fn new(http2_connections: usize) -> Self {
        Self {
            negotiated: Slot::new(),
            one: Slot::new(),
            two: (0..http2_connections.max(1)).map(|_| Slot::new()).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// A client for this HTTP: a shared one, or one with a connection of its own.
    pub(super) fn get(&self, http: Http, own: bool) -> Result<Client, SimError> {
        if own {
            return build(http);
        }
        let slot = match http {
            Http::Negotiated => &self.negotiated,
            Http::One => &self.one,
            Http::Two => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.two.len();
                self.two.get(turn).unwrap_or(&self.negotiated)
            }
        };
        slot.get_or_init(|| build(http)).clone()
    }
}

/// A client as the server's: no redirects, no proxy, and never a second try.
fn build(http: Http) -> Result<Client, SimError> {
    // Another part of the program may have installed it: that is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .retry(reqwest::retry::never());
    let builder = match http {
        Http::Negotiated => builder,
        Http::One => builder.http1_only(),
        Http::Two => builder.http2_prior_knowledge(),
    };
    builder.build().map_err(|error| SimError::Request(format!("no HTTP client: {error}")))
}
