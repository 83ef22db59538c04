//! Who uses the cluster: gateways' clients, users of the claims API, operators and readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::Node;
use protocol::command::{Claim, Grant, Verdict as Decision};
use protocol::record::{OnUnknown, Retention, State, Terms};
use protocol::{
    Command, Fingerprint, HolderId, IdempotencyKey, Millis, Outcome, Record, RecordName, Scope,
    Token,
};
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::gateway::{self, Driver};
use super::history::{Name, Seen, Told, Verdict, What};
use super::upstream::{Job, Upstream};
use super::world::{NODES, World};

const TENANTS: [&str; 2] = ["acme", "brew"];
const LEASE: Millis = Millis::from_secs(3);
const MAX_EXECUTION: Millis = Millis::from_secs(5);
/// How long the outcomes of some keys are kept; those of the others outlive the run.
pub(crate) const SHORT_RETENTION: Duration = Duration::from_secs(8);
const DOWNSTREAM_RETENTION: Millis = Millis::from_secs(60);
/// Keys come and go: so many are in use at a time, for so long.
const KEYS: u64 = 3;
const KEYS_LAST: u64 = 6;

/// The users of a run. Clones count requests together.
#[derive(Clone)]
pub(crate) struct Users {
    pub(crate) world: World,
    pub(crate) upstream: Upstream,
    requests: Arc<AtomicU64>,
}

/// Whether the outcomes of a key are kept for [`SHORT_RETENTION`] only.
pub(crate) fn is_short(key: &str) -> bool {
    key.starts_with("short")
}

/// Whether another attempt may take a key over.
pub(crate) fn is_takeover(key: &str) -> bool {
    key.starts_with("takeover")
}

impl Users {
    pub(crate) fn new(world: World, upstream: Upstream) -> Self {
        Self { world, upstream, requests: Arc::default() }
    }

    fn some_name(&self, random: &mut StdRng) -> Name {
        let period = self.world.history.now().as_secs() / KEYS_LAST;
        let kind = ["plain", "plain", "short", "takeover"][random.random_range(0..4)];
        // Keys of before are asked for as well: most of them are completed.
        let period = period.saturating_sub(u64::from(random.random_ratio(1, 4)));
        let key = format!("{kind}-{period}-{}", random.random_range(0..KEYS));
        Name { tenant: TENANTS[random.random_range(0..TENANTS.len())], key }
    }

    /// A client of the gateways: one request after the other, at any node.
    pub(crate) async fn client(self, mut random: StdRng) {
        loop {
            sleep(Duration::from_millis(random.random_range(5..400))).await;
            let name = self.some_name(&mut random);
            let payload = u8::from(random.random_ratio(1, 12));
            self.ask(random.random_range(0..NODES), name, payload, random.random()).await;
        }
    }

    /// Sends one request through a gateway and waits for the answer.
    pub(crate) async fn ask(&self, node: usize, name: Name, payload: u8, attempt: u128) -> Told {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let history = &self.world.history;
        history.add(What::Asked { request, name: name.clone(), payload, node });
        let told = match self.world.process(node) {
            None => Told::Gone,
            Some((machine, process)) => {
                let (client, answer) = oneshot::channel();
                let (upstream, name) = (self.upstream.clone(), name.clone());
                let history = history.clone();
                machine.spawn(async move {
                    match claim(&process, &name, payload, attempt) {
                        Err(error) => drop(client.send(Told::Other(error))),
                        Ok(claim) => {
                            let client = Some(client);
                            let node = process;
                            Driver { node, upstream, claim, name, payload, history, client }
                                .run()
                                .await;
                        }
                    }
                });
                let answer = timeout(Duration::from_secs(8), answer).await;
                answer.map_or(Told::Gone, |answer| answer.unwrap_or(Told::Gone))
            }
        };
        history.add(What::Told { request, name, payload, told: told.clone() });
        told
    }

    /// A user of the claims API, who does the work itself and now and then forgets to say so.
    pub(crate) async fn worker(self, mut random: StdRng) {
        loop {
            sleep(Duration::from_millis(random.random_range(50..600))).await;
            let mut name = self.some_name(&mut random);
            name.key.push_str("-claimed");
            let request = self.requests.fetch_add(1, Ordering::Relaxed);
            let node = random.random_range(0..NODES);
            let asked = What::Asked { request, name: name.clone(), payload: 0, node };
            self.world.history.add(asked);
            let told = self.work(&mut random, &name).await;
            self.world.history.add(What::Told { request, name, payload: 0, told });
        }
    }

    async fn work(&self, random: &mut StdRng, name: &Name) -> Told {
        let attempt = random.random();
        let first_send = tokio::time::Instant::now();
        let mut granted = None;
        for _ in 0..4 {
            let copied = name.clone();
            let answer = self
                .with_node(random, move |node| async move {
                    let claim = claim(&node, &copied, 0, attempt).ok()?;
                    submit(&node, Command::Claim(claim)).await
                })
                .await;
            match answer {
                Some(Outcome::Granted { grant, generation, .. }) => {
                    granted = Some((grant, generation.as_number()));
                    break;
                }
                Some(Outcome::Superseded) | None => sleep(Duration::from_millis(20)).await,
                Some(outcome) => return said(outcome),
            }
        }
        let Some((grant, generation)) = granted else { return Told::Gone };
        // A user that is late must not begin.
        let window = Duration::from_millis(LEASE.get() - 1250);
        let begins = first_send.elapsed() < window;
        if !begins || random.random_ratio(1, 10) {
            let fence = grant.fence.as_number();
            self.world.history.add(What::Released { name: name.clone(), fence });
            self.tell(random, Command::Release { name: name_of(name), grant }).await;
            return Told::Other("released".to_owned());
        }
        let fence = grant.fence.as_number();
        let job = Job { name: name.clone(), payload: 0, generation, fence };
        let nonce = self.upstream.execute(job);
        sleep(Duration::from_millis(random.random_range(1..400))).await;
        self.finish(random, name, grant, generation, nonce).await
    }

    async fn finish(
        &self,
        random: &mut StdRng,
        name: &Name,
        grant: Grant,
        generation: u64,
        nonce: String,
    ) -> Told {
        match random.random_range(0..20) {
            0 => Told::Gone,
            1 => {
                self.tell(random, Command::Unknown { name: name_of(name), grant }).await;
                Told::Other("unknown".to_owned())
            }
            lucky => {
                if lucky < 6 {
                    sleep(Duration::from_millis(random.random_range(500..6000))).await;
                    let renew = Command::Renew { name: name_of(name), grant, lease: LEASE };
                    self.tell(random, renew).await;
                }
                let fence = grant.fence.as_number();
                self.world.history.add(What::Completing { name: name.clone(), fence });
                let response = gateway::stored(&nonce);
                let complete = Command::Complete { name: name_of(name), grant, response };
                match self.tell(random, complete).await {
                    Some(Outcome::Completed) => Told::Own { generation, nonce },
                    other => Told::Other(format!("{other:?}").chars().take(40).collect()),
                }
            }
        }
    }

    /// Submits a command that may be repeated, until somebody has answered.
    async fn tell(&self, random: &mut StdRng, command: Command) -> Option<Outcome> {
        for _ in 0..4 {
            let command = command.clone();
            let told =
                self.with_node(random, move |node| async move { submit(&node, command).await });
            if let Some(outcome) = told.await {
                return Some(outcome);
            }
            sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// Does something on a node that runs, for two seconds at most.
    async fn with_node<T, F>(&self, random: &mut StdRng, work: impl FnOnce(Node) -> F) -> Option<T>
    where
        F: Future<Output = Option<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (machine, node) = self.world.process(random.random_range(0..NODES))?;
        let done = machine.spawn(work(node));
        timeout(Duration::from_millis(2500), done).await.ok()?.ok()?
    }

    /// Settles records that wait for an operator, and forgets some that are completed.
    pub(crate) async fn operator(self, mut random: StdRng) {
        loop {
            sleep(Duration::from_millis(random.random_range(300..1500))).await;
            if random.random() {
                self.settle(&mut random).await;
            } else {
                self.forget(&mut random).await;
            }
        }
    }

    async fn settle(&self, random: &mut StdRng) {
        let listed = self.with_node(random, |node| async move {
            node.unsettled(None, 20, gateway::now() + Duration::from_secs(2)).await.ok()
        });
        let Some(listed) = listed.await else { return };
        let Some(chosen) = listed.get(random.random_range(0..listed.len().max(1))) else { return };
        let (Record::Live(generation), Some(name)) = (&chosen.record, known(&chosen.name)) else {
            return;
        };
        let released = random.random_ratio(2, 3);
        let verdict = if released { Verdict::Released } else { Verdict::Completed };
        let fence = generation.fence;
        self.world.history.add(What::Operator {
            name: name.clone(),
            fence: fence.as_number(),
            verdict,
        });
        let resolve = Command::Resolve {
            name: chosen.name.clone(),
            fence,
            verdict: match verdict {
                Verdict::Completed => Decision::Completed(gateway::stored("operator")),
                _ => Decision::Released,
            },
            by: "operator".to_owned(),
            reason: "asked the bank".to_owned(),
            force: random.random(),
        };
        self.tell(random, resolve).await;
    }

    async fn forget(&self, random: &mut StdRng) {
        let name = self.some_name(random);
        let Seen::Done { fence, .. } = self.read(random, &name).await else { return };
        let verdict = Verdict::Forgotten;
        self.world.history.add(What::Operator { name: name.clone(), fence, verdict });
        let forget =
            Command::Forget { name: name_of(&name), fence: protocol::Fence::from_number(fence) };
        self.tell(random, forget).await;
    }

    /// Looks records up through the log, at any node.
    pub(crate) async fn reader(self, mut random: StdRng) {
        loop {
            sleep(Duration::from_millis(random.random_range(20..300))).await;
            let mut name = self.some_name(&mut random);
            if random.random_ratio(1, 4) {
                name.key.push_str("-claimed");
            }
            self.read(&mut random, &name).await;
        }
    }

    async fn read(&self, random: &mut StdRng, name: &Name) -> Seen {
        let asked_at = self.world.history.now();
        let node = random.random_range(0..NODES);
        match self.look(node, name, Duration::from_secs(2)).await {
            None => Seen::Other("no answer"),
            Some(seen) => {
                let (name, seen_too) = (name.clone(), seen.clone());
                self.world.history.add(What::Read { asked_at, name, node, seen: seen_too });
                seen
            }
        }
    }

    /// What a read through the log at a node finds.
    pub(crate) async fn look(&self, node: usize, name: &Name, patience: Duration) -> Option<Seen> {
        let (machine, process) = self.world.process(node)?;
        let name = name_of(name);
        let found = machine
            .spawn(async move { process.read(&name, gateway::now() + patience).await })
            .await
            .ok()?
            .ok()?;
        Some(seen(found.record.as_ref()))
    }
}

fn seen(record: Option<&Record>) -> Seen {
    let Some(Record::Live(generation)) = record else { return Seen::Absent };
    match &generation.state {
        State::Done { revisions, .. } => Seen::Done {
            generation: generation.id.as_number(),
            fence: generation.fence.as_number(),
            nonce: gateway::nonce_of(&revisions[0].response),
        },
        State::Forgotten { .. } => Seen::Forgotten,
        State::InFlight { .. } => Seen::Other("in flight"),
        State::Over { .. } => Seen::Other("over"),
        State::Indeterminate { .. } => Seen::Other("indeterminate"),
    }
}

fn said(outcome: Outcome) -> Told {
    match outcome {
        Outcome::Replay(replay) => Told::Replay {
            generation: replay.generation.as_number(),
            nonce: gateway::nonce_of(&replay.response),
        },
        Outcome::InProgress { .. } => Told::InProgress,
        Outcome::Reused { .. } => Told::Reused,
        Outcome::Indeterminate => Told::Indeterminate,
        other => Told::Other(format!("{other:?}").chars().take(40).collect()),
    }
}

async fn submit(node: &Node, command: Command) -> Option<Outcome> {
    let deadline = gateway::now() + Duration::from_secs(2);
    node.submit(command, deadline).await.ok().map(|decided| decided.outcome)
}

/// The record's name as the product has it.
pub(crate) fn name_of(name: &Name) -> RecordName {
    let scope = Scope {
        tenant: name.tenant.to_owned(),
        sub_account: vec![],
        credential: None,
        operation: Some("orders".to_owned()),
    };
    RecordName::new(&scope, &IdempotencyKey::from_text(&name.key, 255).unwrap())
}

fn known(name: &RecordName) -> Option<Name> {
    let (scope, key) = name.parts()?;
    let tenant = TENANTS.into_iter().find(|tenant| *tenant == scope.tenant)?;
    Some(Name { tenant, key })
}

fn claim(node: &Node, name: &Name, payload: u8, attempt: u128) -> Result<Claim, String> {
    let record = name_of(name);
    let takeover = OnUnknown::Takeover { downstream_retention: DOWNSTREAM_RETENTION };
    let retention =
        if is_short(&name.key) { SHORT_RETENTION.as_millis() as u64 } else { 86_400_000 };
    Ok(Claim {
        seen: node.seen(&record).map_err(|error| error.to_string())?,
        name: record,
        holder: HolderId::of(b"simulated", &attempt.to_be_bytes()),
        print: Fingerprint { version: 1, digest: [payload; 32] }.into(),
        operation: None,
        lease: LEASE,
        terms: Terms {
            retention: Retention::For(Millis::new(retention)),
            on_unknown: if is_takeover(&name.key) { takeover } else { OnUnknown::FailClosed },
            max_execution: MAX_EXECUTION,
        },
        token: Token::new(attempt.to_le_bytes()),
    })
}
