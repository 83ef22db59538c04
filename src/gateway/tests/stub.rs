//! A stub upstream: a socket that does what a test tells it, byte for byte, and counts.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Long enough for anything on loopback, short enough for a failing test.
pub(in crate::gateway) const PATIENCE: Duration = Duration::from_secs(10);

/// What the stub does with one request, once it has read all of it.
#[derive(Clone)]
pub(in crate::gateway) enum Step {
    /// Writes these bytes.
    Write(Vec<u8>),
    /// Waits until the test says go.
    Wait(Arc<Notify>),
    /// Closes the connection in order.
    Close,
    /// Resets the connection.
    Reset,
}

/// One request as it came.
#[derive(Clone, Debug, Default)]
pub(in crate::gateway) struct Seen {
    pub(in crate::gateway) head: String,
    pub(in crate::gateway) body: Vec<u8>,
    /// Which connection it came on, from 1.
    pub(in crate::gateway) connection: usize,
}

impl Seen {
    /// The values of every line of this field, in order.
    pub(in crate::gateway) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim()).collect()
    }

    /// The value of the one line of this field.
    pub(in crate::gateway) fn one(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} came more than once: {all:?}");
        all.first().copied()
    }
}

#[derive(Default)]
struct Shared {
    /// What is done with the next requests; the last script serves all that follow.
    scripts: Mutex<VecDeque<Vec<Step>>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    /// Number of connections that have ended.
    closed: watch::Sender<usize>,
}

/// A running stub; it stops when this is dropped.
pub(in crate::gateway) struct Stub {
    pub(in crate::gateway) address: SocketAddr,
    shared: Arc<Shared>,
    count: watch::Receiver<usize>,
    server: tokio::task::JoinHandle<()>,
}

impl Stub {
    /// A stub that does this with every request.
    pub(in crate::gateway) async fn always(script: Vec<Step>) -> Self {
        Self::scripted([script]).await
    }

    /// A stub that answers every request with this.
    pub(in crate::gateway) async fn answering(answer: &str) -> Self {
        Self::always(vec![Step::Write(answer.as_bytes().to_vec())]).await
    }

    /// A stub with a script for each request; the last one serves all that follow.
    pub(in crate::gateway) async fn scripted(scripts: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let scripts = Mutex::new(scripts.into_iter().collect());
        let shared = Arc::new(Shared { scripts, ..Shared::default() });
        let (counted, count) = watch::channel(0);
        let counted = Arc::new(counted);
        let serving = Arc::clone(&shared);
        let server = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let number = serving.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let (shared, counted) = (Arc::clone(&serving), Arc::clone(&counted));
                tokio::spawn(async move {
                    connection(socket, number, &shared, &counted).await;
                    shared.closed.send_modify(|closed| *closed += 1);
                });
            }
        });
        Self { address, shared, count, server }
    }

    /// The requests that came whole so far.
    pub(in crate::gateway) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Number of connections so far.
    pub(in crate::gateway) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until so many connections have ended.
    pub(in crate::gateway) async fn closed(&self, wanted: usize) {
        let mut closed = self.shared.closed.subscribe();
        timeout(PATIENCE, closed.wait_for(|closed| *closed >= wanted)).await.unwrap().unwrap();
    }

    /// Waits until so many requests have come.
    pub(in crate::gateway) async fn requests(&self, wanted: usize) {
        let mut count = self.count.clone();
        timeout(PATIENCE, count.wait_for(|count| *count >= wanted)).await.unwrap().unwrap();
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn connection(
    mut socket: TcpStream,
    number: usize,
    shared: &Shared,
    counted: &watch::Sender<usize>,
) {
    let mut bytes = Vec::new();
    while let Some(mut seen) = read_request(&mut socket, &mut bytes).await {
        seen.connection = number;
        shared.seen.lock().unwrap().push(seen);
        counted.send_modify(|count| *count += 1);
        let script = {
            let mut scripts = shared.scripts.lock().unwrap();
            if scripts.len() > 1 { scripts.pop_front().unwrap() } else { scripts[0].clone() }
        };
        for step in script {
            match step {
                Step::Write(bytes) => {
                    if socket.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Wait(go) => go.notified().await,
                Step::Close => return,
                Step::Reset => {
                    socket.set_zero_linger().unwrap();
                    return;
                }
            }
        }
    }
}

/// Reads one request; `None` when the connection ends before it is whole.
async fn read_request(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Seen> {
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(socket, bytes).await?;
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut seen = Seen { head, ..Seen::default() };
    bytes.drain(..head_end);
    if seen.one("transfer-encoding").is_some() {
        // A chunk at a time, until the one of no bytes.
        loop {
            let line_end = loop {
                match bytes.windows(2).position(|window| window == b"\r\n") {
                    Some(at) => break at,
                    None => read_more(socket, bytes).await?,
                }
            };
            let size = std::str::from_utf8(&bytes[..line_end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            while bytes.len() < line_end + 2 + size + 2 {
                read_more(socket, bytes).await?;
            }
            seen.body.extend_from_slice(&bytes[line_end + 2..line_end + 2 + size]);
            bytes.drain(..line_end + 2 + size + 2);
            if size == 0 {
                return Some(seen);
            }
        }
    }
    let length = seen.one("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < length {
        read_more(socket, bytes).await?;
    }
    seen.body = bytes.drain(..length).collect();
    Some(seen)
}

async fn read_more(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 16 << 10];
    match socket.read(&mut buffer).await {
        Ok(read) if read > 0 => {
            bytes.extend_from_slice(&buffer[..read]);
            Some(())
        }
        _ => None,
    }
}
