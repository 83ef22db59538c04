//! Links between nodes that can be cut and slowed: a proxy in user space for each ordered pair.
//!
//! Node *a* dials node *b* at the proxy *a→b*. Over that connection *a*'s calls go one way and
//! *b*'s answers the other, so "nothing of *a* reaches *b*" stops the calls on *a→b* and the
//! answers on *b→a*. Bytes that are stopped wait, as they do in TCP while its packets are lost:
//! after the cut they flow on, unless an end has given the connection up.
//!
//! A loss is what TCP makes of it: a pause of a retransmission, longer each time it repeats, and
//! now and then a connection that is reset. Bytes are never reordered, since TCP never does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How much is read at once, and how many such pieces may be on their way.
const PIECE_BYTES: usize = 16 * 1024;
const PIECES_MAX: usize = 256;

/// A lost packet is sent again after this long, and after twice as long when it is lost again.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// One in so many losses ends the connection.
const LOSSES_PER_RESET: u32 = 40;

/// How a direction behaves: from one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// Nothing gets through.
    pub cut: bool,
    /// How long a byte takes at least.
    pub delay: Duration,
    /// How much longer it may take.
    pub jitter: Duration,
    /// The share of packets that are lost, 0 to 1.
    pub loss: f64,
}

/// The directions between all nodes. Clones share them.
#[derive(Clone)]
pub struct Links {
    directions: Arc<BTreeMap<(u8, u8), watch::Sender<Weather>>>,
    /// What was carried, in bytes, from one node to another.
    carried: Arc<BTreeMap<(u8, u8), AtomicU64>>,
    random: Arc<Mutex<StdRng>>,
}

impl Links {
    /// Links between the nodes 1 to `nodes`, all of them fine.
    pub fn new(nodes: u8, seed: u64) -> Self {
        let pairs = || {
            (1..=nodes).flat_map(move |a| (1..=nodes).filter(move |b| a != *b).map(move |b| (a, b)))
        };
        let directions = pairs().map(|pair| (pair, watch::Sender::new(Weather::default())));
        Self {
            directions: Arc::new(directions.collect()),
            carried: Arc::new(pairs().map(|pair| (pair, AtomicU64::new(0))).collect()),
            random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
        }
    }

    /// Changes the weather from `from` to `to`.
    pub fn set(&self, from: u8, to: u8, weather: Weather) {
        if let Some(direction) = self.directions.get(&(from, to)) {
            direction.send_replace(weather);
        }
    }

    /// Changes the weather everywhere.
    pub fn set_all(&self, weather: Weather) {
        for direction in self.directions.values() {
            direction.send_replace(weather);
        }
    }

    /// Cuts both directions between every node of `ones` and every node of `others`.
    pub fn cut_between(&self, ones: &[u8], others: &[u8]) {
        let cut = Weather { cut: true, ..Weather::default() };
        for one in ones {
            for other in others {
                self.set(*one, *other, cut);
                self.set(*other, *one, cut);
            }
        }
    }

    /// How many bytes have been carried from `from` to `to`.
    pub fn carried(&self, from: u8, to: u8) -> u64 {
        self.carried.get(&(from, to)).map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }

    /// Takes connections of `from` on `listener` and carries them to `to`, for ever.
    pub async fn serve(self, listener: TcpListener, from: u8, to: u8, target: SocketAddr) {
        loop {
            let Ok((near, _)) = listener.accept().await else { continue };
            let links = self.clone();
            tokio::spawn(async move { links.carry(near, from, to, target).await });
        }
    }

    /// Carries one connection until an end, or a loss, closes it.
    async fn carry(self, near: TcpStream, from: u8, to: u8, target: SocketAddr) {
        let (Some(out), Some(back)) =
            (self.directions.get(&(from, to)), self.directions.get(&(to, from)))
        else {
            return;
        };
        // A connection is opened by packets in both directions.
        passable(out).await;
        passable(back).await;
        let Ok(far) = TcpStream::connect(target).await else { return };
        drop(near.set_nodelay(true));
        drop(far.set_nodelay(true));
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        tokio::select! {
            () = self.pump(near_read, far_write, (from, to)) => {}
            () = self.pump(far_read, near_write, (to, from)) => {}
        }
    }

    /// Carries bytes one way until the connection ends.
    async fn pump(
        &self,
        read: impl AsyncRead + Unpin,
        write: impl AsyncWrite + Unpin,
        pair: (u8, u8),
    ) {
        let (pieces, arriving) = mpsc::channel(PIECES_MAX);
        tokio::join!(self.depart(read, pieces, pair), self.arrive(write, arriving, pair));
    }

    /// Reads pieces and says when each arrives.
    async fn depart(
        &self,
        mut read: impl AsyncRead + Unpin,
        pieces: mpsc::Sender<(Instant, Vec<u8>)>,
        pair: (u8, u8),
    ) {
        let Some(direction) = self.directions.get(&pair) else { return };
        let mut due = Instant::now();
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let Ok(bytes @ 1..) = read.read(&mut piece).await else { return };
            piece.truncate(bytes);
            let weather = *direction.borrow();
            let Some(took) = self.travel(weather) else { return };
            // In order: what is late holds up what comes behind it.
            due = due.max(Instant::now() + took);
            if pieces.send((due, piece)).await.is_err() {
                return;
            }
        }
    }

    /// Writes each piece when it is due and nothing is cut.
    async fn arrive(
        &self,
        mut write: impl AsyncWrite + Unpin,
        mut pieces: mpsc::Receiver<(Instant, Vec<u8>)>,
        pair: (u8, u8),
    ) {
        let Some(direction) = self.directions.get(&pair) else { return };
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            passable(direction).await;
            if write.write_all(&piece).await.is_err() {
                return;
            }
            if let Some(carried) = self.carried.get(&pair) {
                carried.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
        }
    }

    /// How long a piece takes; `None` when the connection is reset instead.
    fn travel(&self, weather: Weather) -> Option<Duration> {
        let mut random = self.random();
        let mut took = weather.delay + weather.jitter.mul_f64(random.random());
        let mut pause = RETRANSMISSION;
        while random.random_bool(weather.loss.clamp(0.0, 0.9)) {
            if random.random_ratio(1, LOSSES_PER_RESET) {
                return None;
            }
            took += pause;
            pause *= 2;
        }
        Some(took)
    }

    fn random(&self) -> MutexGuard<'_, StdRng> {
        self.random.lock().expect("nothing panics while it draws")
    }
}

/// Waits until a direction is not cut.
async fn passable(direction: &watch::Sender<Weather>) {
    let mut weather = direction.subscribe();
    // The sender lives as long as the links.
    drop(weather.wait_for(|weather| !weather.cut).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets, and a client's connection to it over the link 1→2.
    async fn connected(links: &Links) -> TcpStream {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = server.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
        });
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = proxy.local_addr().unwrap();
        tokio::spawn(links.clone().serve(proxy, 1, 2, target));
        TcpStream::connect(address).await.unwrap()
    }

    async fn echo(stream: &mut TcpStream, patience: Duration) -> bool {
        stream.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        let read = tokio::time::timeout(patience, stream.read_exact(&mut answer)).await;
        read.is_ok_and(|read| read.is_ok())
    }

    #[tokio::test]
    async fn what_a_cut_stops_flows_on_behind_it() {
        let links = Links::new(3, 1);
        let mut stream = connected(&links).await;
        assert!(echo(&mut stream, Duration::from_secs(20)).await);
        let cut = Weather { cut: true, ..Weather::default() };
        links.set(1, 2, cut);
        assert!(!echo(&mut stream, Duration::from_millis(200)).await);
        assert_eq!(links.carried(1, 2), 4, "nothing went through the cut");
        links.set(1, 2, Weather::default());
        let mut rest = [0; 4];
        stream.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"ping");
    }

    #[tokio::test]
    async fn one_direction_is_cut_and_the_other_is_not() {
        let links = Links::new(3, 1);
        let mut stream = connected(&links).await;
        assert!(echo(&mut stream, Duration::from_secs(20)).await);
        links.set(2, 1, Weather { cut: true, ..Weather::default() });
        let before = links.carried(1, 2);
        assert!(!echo(&mut stream, Duration::from_millis(200)).await);
        assert_eq!(links.carried(1, 2), before + 4);
        assert_eq!(links.carried(2, 1), 4);
    }

    #[tokio::test]
    async fn a_delay_holds_every_byte_back() {
        let links = Links::new(3, 1);
        let mut stream = connected(&links).await;
        links.set_all(Weather { delay: Duration::from_millis(80), ..Weather::default() });
        let begin = Instant::now();
        assert!(echo(&mut stream, Duration::from_secs(20)).await);
        assert!(begin.elapsed() >= Duration::from_millis(160));
    }

    #[test]
    fn losses_are_pauses_and_sometimes_resets() {
        let links = Links::new(3, 7);
        let weather = Weather { loss: 0.05, ..Weather::default() };
        let took: Vec<_> = (0..10_000).map(|_| links.travel(weather)).collect();
        let paused = took.iter().flatten().filter(|took| **took >= RETRANSMISSION).count();
        let resets = took.iter().filter(|took| took.is_none()).count();
        assert!((300..700).contains(&paused), "{paused}");
        assert!((1..60).contains(&resets), "{resets}");
    }
}
