//! The sockets of the callback server. It is made of hyper's own parts, because it must be able to break connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::super::error::SimError;
use super::super::state::Inner;
use super::super::violation::ViolationKind;
use super::fault::{Fault, FaultRule, draw};
use super::{Answered, Callback, Post, Verdict, judge};
use crate::wire::callback::MAX_BODY;
use crate::wire::headers::EVENT_ID;

/// A running callback server; it stops when this is dropped.
#[derive(Debug)]
pub(in super::super) struct Server {
    stop: oneshot::Sender<Infallible>,
    task: JoinHandle<()>,
}

/// The connection is to be closed.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
struct Closed;

type Body = BoxBody<Bytes, Closed>;

/// A listener and where it really listens.
pub(in super::super) async fn bind(address: &str) -> Result<(TcpListener, SocketAddr), SimError> {
    let failed = |error: std::io::Error| SimError::Listen { address: address.to_owned(), reason: error.to_string() };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Serves until [`stop`], or until nobody uses the simulated server any more.
pub(in super::super) fn serve(inner: &Arc<Inner>, listener: TcpListener) {
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(accept(Arc::downgrade(inner), listener, stopped));
    *inner.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(Server { stop, task });
}

/// Stops, and waits until the port is free.
pub(in super::super) async fn stop(inner: &Inner) {
    let server = inner.server.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Server { stop, task }) = server {
        drop(stop);
        // It can only fail by a panic, and then the port is free as well.
        let _ = task.await;
    }
}

async fn accept(inner: Weak<Inner>, listener: TcpListener, mut stopped: oneshot::Receiver<Infallible>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(inner.clone(), stream))),
                // Out of file descriptors, or a client that has gone again: the next one may do.
                Err(_) => tokio::task::yield_now().await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn connection(inner: Weak<Inner>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| handle(inner.clone(), request));
    // That the connection broke is no news to this side: it is what tests do.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(inner: Weak<Inner>, request: Request<Incoming>) -> Result<Response<Body>, Closed> {
    let inner = inner.upgrade().ok_or(Closed)?;
    let at = Instant::now();
    let (parts, body) = request.into_parts();
    let (body, too_large) = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => (body.to_bytes(), false),
        Err(error) if error.is::<LengthLimitError>() => (Bytes::new(), true),
        Err(_) => return Err(Closed),
    };
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let run_id = json.get("run_id").and_then(|id| id.as_str()).unwrap_or_default().to_owned();
    let event_id = parts.headers.get(EVENT_ID).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let mut headers = parts.headers;
    if let Some(token) = headers.get_mut(http::header::AUTHORIZATION) {
        token.set_sensitive(true);
    }
    let post = Post { headers, body, run_id, event_id };
    let mut record = Record::open(&inner, &post, at);
    if parts.method != Method::POST || parts.uri.path() != "/bot/events" {
        let status = if parts.uri.path() == "/bot/events" { 405 } else { 404 };
        let what = format!("{} {:?}", parts.method, parts.uri.path());
        inner.note(ViolationKind::CallbackPath, &post.run_id, what);
        record.close(Answered::Status(status));
        return plain(&Verdict::plain(status, ""));
    }
    let rule = draw(&mut inner.state().faults, &post.run_id);
    let sees = rule.as_ref().is_none_or(|rule| rule.ingest || matches!(rule.fault, Fault::Delay(_)));
    if let Some(FaultRule { fault: Fault::Delay(time), ingest: false, .. }) = &rule {
        tokio::time::sleep(*time).await;
    }
    let verdict = if sees { judge::receive(&inner, &post, too_large).await } else { Verdict::accepted() };
    if sees {
        record.judged(&verdict);
    } else {
        judge::unseen(&inner, &post);
    }
    let Some(rule) = rule else {
        record.answer(&post, verdict.status);
        return plain(&verdict);
    };
    drop(inner);
    spoil(rule, &verdict, record, &post).await
}

/// The answer, as the fault leaves it.
async fn spoil(rule: FaultRule, verdict: &Verdict, mut record: Record, post: &Post) -> Result<Response<Body>, Closed> {
    match rule.fault {
        Fault::Status(status) => {
            record.answer(post, status);
            plain(&Verdict::error(status, "scripted", "a fault on purpose"))
        }
        Fault::Close => {
            record.close(Answered::Closed);
            Err(Closed)
        }
        Fault::CloseMidBody => {
            record.close(Answered::Cut(200));
            let some = Ok(Frame::data(Bytes::from_static(b"{\"ok\":")));
            let body = StreamBody::new(futures_util::stream::iter([some, Err(Closed)]));
            response(200, "application/json").header(CONTENT_LENGTH, 48).body(BodyExt::boxed(body)).map_err(|_| Closed)
        }
        Fault::Redirect(to) => {
            record.answer(post, 307);
            response(307, "text/plain").header(LOCATION, to).body(full("")).map_err(|_| Closed)
        }
        Fault::HugeBody(bytes) => {
            record.close(Answered::Status(200));
            response(200, "application/json").body(full(" ".repeat(bytes))).map_err(|_| Closed)
        }
        Fault::Hang => {
            record.close(Answered::Hung);
            // Nothing may be held meanwhile that keeps the simulated server alive.
            drop(record);
            std::future::pending().await
        }
        Fault::Delay(time) => {
            if rule.ingest {
                tokio::time::sleep(time).await;
            }
            record.answer(post, verdict.status);
            plain(verdict)
        }
    }
}

fn response(status: u16, content_type: &str) -> http::response::Builder {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Response::builder().status(status).header(CONTENT_TYPE, content_type)
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

fn plain(verdict: &Verdict) -> Result<Response<Body>, Closed> {
    response(verdict.status, verdict.content_type).body(full(verdict.body.clone())).map_err(|_| Closed)
}

/// The entry of a callback in the list; if the Provider goes away first, it is closed with that.
struct Record {
    inner: Arc<Inner>,
    index: usize,
    open: bool,
}

impl Record {
    fn open(inner: &Arc<Inner>, post: &Post, at: Instant) -> Self {
        let mut state = inner.state();
        state.callbacks.push(Callback {
            at,
            run_id: post.run_id.clone(),
            event_id: post.event_id.clone(),
            headers: post.headers.clone(),
            body: post.body.clone(),
            answer: Answered::Pending,
            ingested: false,
            early: false,
        });
        let index = state.callbacks.len() - 1;
        Self { inner: inner.clone(), index, open: true }
    }

    fn judged(&mut self, verdict: &Verdict) {
        if let Some(callback) = self.inner.state().callbacks.get_mut(self.index) {
            callback.ingested = verdict.ingested;
            callback.early = verdict.early;
        }
    }

    /// A whole answer goes out.
    fn answer(&mut self, post: &Post, status: u16) {
        if let Some(seen) = self.inner.state().events.get_mut(&post.event_id) {
            seen.answer = Some(status);
        }
        self.close(Answered::Status(status));
    }

    fn close(&mut self, answer: Answered) {
        self.open = false;
        if let Some(callback) = self.inner.state().callbacks.get_mut(self.index) {
            callback.answer = answer;
        }
        self.inner.callbacks_changed.notify_waiters();
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.open {
            self.close(Answered::Closed);
        }
    }
}
