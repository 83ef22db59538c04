//! What the clients of a run do. Each workload is a file: its keys, and one turn of a client.

mod gateway;
mod lease;
mod race;
mod retention;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;

use crate::client::{Client, Ended};
use crate::generator::{Keys, of_client, pause};
use crate::operation::{Call, How, Name, Verb};
use crate::upstream::{Execution, Ledger};

/// A workload. One for membership, moved shards and rolling upgrades belongs here once the product
/// has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Clients in all regions race for hot keys, through gateways and through the claims API.
    Race,
    /// Requests through the gateways, with an upstream that misbehaves.
    Gateway,
    /// Leases that end, takeover, late completions, operators.
    Lease,
    /// Short retention, many tenants and accounts, changed bodies, and large answers, so that logs
    /// are purged all the time.
    Retention,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Self; 4] = [Self::Race, Self::Gateway, Self::Lease, Self::Retention];

    /// How many clients call at a time. Holders of leases wait a lot.
    pub fn clients(self) -> u32 {
        if self == Self::Lease { 30 } else { 10 }
    }

    /// By how much an answer of the upstream is larger than it need be, in bytes.
    pub fn filling(self) -> usize {
        if self == Self::Retention { 24 * 1024 } else { 0 }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Race => "w1",
            Self::Gateway => "w2",
            Self::Lease => "w3",
            Self::Retention => "w4",
        })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|workload| workload.to_string() == text);
        found.ok_or_else(|| format!("no workload {text:?}: there are w1, w2, w3 and w4"))
    }
}

/// How long a client waits when nobody answered.
const AFTER_NOTHING: Duration = Duration::from_millis(150);

/// What the clients of a run share.
#[derive(Clone)]
pub struct Load {
    workload: Workload,
    seed: u64,
    ledger: Ledger,
    gateway_keys: Keys,
    claims_keys: Keys,
}

impl Load {
    /// The load of a workload.
    pub fn new(workload: Workload, seed: u64, ledger: Ledger) -> Self {
        // Of the claims API a key gets at most 60 calls, so that each history can be decided: a
        // turn makes up to five.
        let (gateway_keys, claims_keys) = match workload {
            Workload::Race => (Keys::new("g", 2, 24), Keys::new("c", 2, 10)),
            Workload::Gateway => (Keys::new("g", 24, 5), Keys::new("c", 1, 1)),
            Workload::Lease => (Keys::new("g", 4, 12), Keys::new("c", 16, 7)),
            Workload::Retention => (Keys::new("g", 6, 80), Keys::new("c", 1, 1)),
        };
        Self { workload, seed, ledger, gateway_keys, claims_keys }
    }

    /// Makes one client's calls until `end`.
    pub async fn run(self, client: Client, end: Instant) {
        let mut random = of_client(self.seed, client.process);
        let mut turn = Turn { load: &self, client: &client, end, said: 0 };
        while Instant::now() < end {
            tokio::time::sleep(pause(&mut random, 60)).await;
            match self.workload {
                Workload::Race => race::turn(&mut turn, &mut random).await,
                Workload::Gateway => gateway::turn(&mut turn, &mut random).await,
                Workload::Lease => lease::turn(&mut turn, &mut random).await,
                Workload::Retention => retention::turn(&mut turn, &mut random).await,
            }
        }
    }
}

/// One client's turns.
struct Turn<'a> {
    load: &'a Load,
    client: &'a Client,
    end: Instant,
    /// How many attempts and nonces it has made up.
    said: u64,
}

/// A claim that was granted.
struct Granted {
    name: Name,
    fence: u64,
    token: String,
    /// The call in the history.
    call: u64,
}

impl Turn<'_> {
    async fn call(&self, node: u8, name: &Name, verb: Verb, token: &str) -> Ended {
        let call = Call { node, name: name.clone(), verb, last: false };
        let ended = self.client.call(call, token).await;
        if ended.answer.status == 0 {
            // A node that is down refuses at once; nobody learns more from asking it all the time.
            self.wait(AFTER_NOTHING).await;
        }
        ended
    }

    /// A text that no other client and no other call makes up.
    fn fresh(&mut self) -> String {
        self.said += 1;
        format!("p{}-{}", self.client.process, self.said)
    }

    /// Claims with an attempt of its own, once more with the same one if nobody can tell; what was
    /// told, and the grant if it is one.
    async fn claim(
        &mut self,
        random: &mut StdRng,
        name: &Name,
        variant: u32,
        lease_ms: u64,
    ) -> (Ended, Option<Granted>) {
        let verb = Verb::Claim { attempt: self.fresh(), variant, lease_ms };
        let mut ended = self.call(random.random_range(1..=3), name, verb.clone(), "").await;
        if ended.answer.is_unavailable() && random.random_bool(0.5) {
            ended = self.call(random.random_range(1..=3), name, verb, "").await;
        }
        let granted = (ended.answer.status == 201).then(|| Granted {
            name: name.clone(),
            fence: ended.answer.fence,
            token: ended.token.clone(),
            call: ended.call,
        });
        (ended, granted)
    }

    /// Executes under a grant, as a service of its own does; the nonce, or `None` where the ledger
    /// refused.
    async fn execute(&self, granted: &Granted) -> Option<String> {
        let Granted { name, fence, call, .. } = granted;
        let done = self
            .load
            .ledger
            .execute(Execution {
                at: 0,
                name: name.clone(),
                fence: *fence,
                attempt: 0,
                nonce: format!("{}-{call}-{:016x}", name.tenant, rand::random::<u64>()),
                call: *call,
                how: How::After(0),
                refused: false,
            })
            .await;
        (!done.refused).then_some(done.nonce)
    }

    /// Completes, and again at another node if nobody can tell.
    async fn complete(&self, random: &mut StdRng, granted: &Granted, nonce: &str) -> Ended {
        let verb = Verb::Complete { fence: granted.fence, nonce: nonce.to_owned() };
        let node = random.random_range(1..=3);
        let ended = self.call(node, &granted.name, verb.clone(), &granted.token).await;
        if !ended.answer.is_unavailable() {
            return ended;
        }
        self.call(node % 3 + 1, &granted.name, verb, &granted.token).await
    }

    /// Waits, but not past the end of the load.
    async fn wait(&self, most: Duration) {
        let left = self.end.saturating_duration_since(Instant::now());
        tokio::time::sleep(most.min(left)).await;
    }
}

/// Starts the clients of a load.
pub fn clients(
    load: &Load,
    end: Instant,
    client: impl Fn(u32) -> Client,
) -> tokio::task::JoinSet<()> {
    let mut clients = tokio::task::JoinSet::new();
    for process in 1..=load.workload.clients() {
        clients.spawn(load.clone().run(client(process), end));
    }
    clients
}
