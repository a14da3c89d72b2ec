//! The HTTP server: HTTP/1.1 and HTTP/2 with prior knowledge on one port, with bounds on what a client can hold.

mod descriptors;
mod idle;
mod io;
mod own;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use self::idle::Idle;
use self::io::WatchedIo;
use crate::webhook::{Answering, FlushWatch, keep_until_taken, refusal};
use crate::wire::ApiError;

/// Bounds of the server.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// Connections at once; more wait in the system's backlog.
    pub max_connections: usize,
    /// How long a connection may be without a request until its client has shown a valid token.
    pub header_timeout: Duration,
    /// The same after it has.
    pub idle_timeout: Duration,
}

/// How long what is under way on a connection that is closed for idleness may take to end.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 1_024;
/// Bytes of a request's headers, names and values.
const MAX_HEADER_BYTES: usize = 32 * 1024;
/// Headers of a request.
const MAX_HEADERS: usize = 100;
/// What the HTTP/2 library may take of headers: it refuses more with a bare status, so what is a little over the
/// limit comes through and is refused here.
const MAX_HEADER_BYTES_H2: u32 = 4 * MAX_HEADER_BYTES as u32;
/// How often a silent HTTP/2 client is asked for a sign of life, and how long it may take.
const H2_PING: Duration = Duration::from_secs(30);
/// The pause after the system refused a connection (no file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often that is said while it lasts.
const ACCEPT_TOLD: Duration = Duration::from_secs(30);

/// Serves until `stop` says so; then takes no more connections, and returns when the open ones are done.
pub async fn serve(listener: TcpListener, router: Router, options: ServerOptions, mut stop: watch::Receiver<bool>) {
    let most = descriptors::connections(options.max_connections);
    let places = Arc::new(Semaphore::new(most));
    let mut refused = Refused::default();
    loop {
        let accepted = tokio::select! {
            () = told(&mut stop) => break,
            accepted = accept(&listener, &places, &mut refused) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let (router, stop) = (router.clone(), stop.clone());
        tokio::spawn(async move {
            connection(stream, router, options, stop).await;
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(most).unwrap_or(u32::MAX);
    let _ = places.acquire_many(all).await;
}

/// Waits for the word to stop.
async fn told(stop: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say it; then it is as if it were said.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Connections that the system did not give, told now and then only: it may last.
#[derive(Default)]
struct Refused {
    untold: u64,
    told: Option<Instant>,
}

impl Refused {
    fn tell(&mut self, error: &std::io::Error) {
        self.untold += 1;
        if self.told.is_none_or(|told| told.elapsed() >= ACCEPT_TOLD) {
            tracing::warn!(%error, times = self.untold, "connections could not be taken");
            *self = Self { untold: 0, told: Some(Instant::now()) };
        }
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    refused: &mut Refused,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            refused.tell(&error);
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// The same bounds for both versions of HTTP.
fn too_many_headers(headers: &http::HeaderMap) -> Option<ApiError> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    (bytes > MAX_HEADER_BYTES || headers.len() > MAX_HEADERS).then(own::headers_too_large)
}

async fn connection(stream: TcpStream, router: Router, options: ServerOptions, mut stop: watch::Receiver<bool>) {
    // Events are small and must not wait for more.
    let _ = stream.set_nodelay(true);
    let (flush, answering) = (FlushWatch::default(), Answering::default());
    let idle = Idle::new();
    let service = {
        let (flush, answering, idle) = (flush.clone(), answering.clone(), idle.clone());
        service_fn(move |mut request: hyper::Request<Incoming>| {
            let under_way = idle.request();
            request.extensions_mut().insert(flush.clone());
            request.extensions_mut().insert(answering.clone());
            let router = router.clone();
            async move {
                if let Some(error) = too_many_headers(request.headers()) {
                    return Ok(keep_until_taken(under_way, refusal(&error, None)));
                }
                let response = router.oneshot(request.map(Body::new)).await;
                response.map(|response| keep_until_taken(under_way, response)).map_err(|e: Infallible| e)
            }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.idle_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES.max(8192))
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES_H2)
        .keep_alive_interval(H2_PING)
        .keep_alive_timeout(H2_PING);
    let served = builder.serve_connection(TokioIo::new(WatchedIo::new(stream, flush, answering.clone())), service);
    tokio::pin!(served);
    let longest = || if answering.is_known() { options.idle_timeout } else { options.header_timeout };
    let look = tokio::time::sleep(longest());
    tokio::pin!(look);
    loop {
        tokio::select! {
            result = served.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = look.as_mut() => {
                let until = idle.since() + longest();
                if until > tokio::time::Instant::now() {
                    look.as_mut().reset(until);
                    continue;
                }
                tracing::debug!("a connection brought no request in time");
                served.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(CLOSE_PATIENCE, served.as_mut()).await;
                return;
            }
            () = told(&mut stop) => {
                served.as_mut().graceful_shutdown();
                let _ = served.as_mut().await;
                return;
            }
        }
    }
}
