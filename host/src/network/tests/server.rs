//! A BCS that answers as it is told, down to the bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request as it came.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) line: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(super) fn bot(&self) -> &str {
        self.header("x-bcn-provider-bot-ref")
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// A status, with further header lines (each with its line end) and a body.
    Status(u16, &'static str, &'static str),
    /// As `Status` with an empty body, once the gate is open.
    Gated(u16),
    /// Never an answer.
    Hang,
    /// The head of a 200 and half its body, then the connection's end.
    Break,
    /// A 200 with a body that has no end.
    Endless,
    /// The connection's end before any answer.
    Reset,
}

pub(super) fn status(status: u16) -> Reply {
    Reply::Status(status, "", "")
}

pub(super) struct Server {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Request>>>,
    gate: watch::Sender<bool>,
}

impl Server {
    /// Answers every request as `script` says, given the request and how many came before it.
    pub(super) async fn start(script: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (gate, _) = watch::channel(false);
        let (script, all, opened) = (Arc::new(script), seen.clone(), gate.clone());
        tokio::spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { return };
                let (script, all, opened) = (script.clone(), all.clone(), opened.subscribe());
                tokio::spawn(async move { serve(socket, &*script, &all, opened).await });
            }
        });
        Self { url, seen, gate }
    }

    /// The requests so far.
    pub(super) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn seen_of(&self, bot: &str) -> usize {
        self.seen().iter().filter(|request| request.bot() == bot).count()
    }

    pub(super) fn open_gate(&self) {
        self.gate.send_replace(true);
    }
}

async fn serve(
    mut socket: TcpStream,
    script: &(impl Fn(&Request, usize) -> Reply + Send + Sync),
    seen: &Mutex<Vec<Request>>,
    mut opened: watch::Receiver<bool>,
) {
    let Some(request) = read(&mut socket).await else { return };
    let reply = {
        let mut seen = seen.lock().unwrap();
        let reply = script(&request, seen.len());
        seen.push(request);
        reply
    };
    // What cannot be written any more is not of interest.
    match reply {
        Reply::Status(status, headers, body) => answer(&mut socket, status, headers, body).await,
        Reply::Gated(status) => {
            let _ = opened.wait_for(|open| *open).await;
            answer(&mut socket, status, "", "").await;
        }
        Reply::Hang => std::future::pending().await,
        Reply::Break => {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ok\":").await;
        }
        Reply::Endless => {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n").await;
            while socket.write_all(&[b'x'; 8_192]).await.is_ok() {}
        }
        Reply::Reset => {}
    }
}

async fn answer(socket: &mut TcpStream, status: u16, headers: &str, body: &str) {
    let len = body.len();
    let head =
        format!("HTTP/1.1 {status} Scripted\r\n{headers}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}");
    let _ = socket.write_all(head.as_bytes()).await;
}

async fn read(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let (line, rest) = head.split_once("\r\n").unwrap();
    let mut headers = HashMap::new();
    for (name, value) in rest.split("\r\n").map(|header| header.split_once(':').unwrap()) {
        let before = headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        assert!(before.is_none(), "{name} twice");
    }
    let len: usize = headers["content-length"].parse().unwrap();
    while bytes.len() < end + 4 + len {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes.split_off(end + 4)).unwrap();
    Some(Request { line: line.to_owned(), headers, body })
}

/// Waits until something holds, but not for ever.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let all = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), all).await.is_ok(), "not in time: {what}");
}
