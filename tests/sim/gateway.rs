//! A gateway on a node: carries out what the protocol's execution machine decides, as the product's
//! own driver does, with the simulated API in the place of HTTP.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use cluster::{Certainty, Node, SubmitError};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use protocol::command::Claim;
use protocol::execution::{
    Action, Answer, Disposition, Event, Execution, Failure, RecordAt, Upstream as News,
};
use protocol::response::StoredBody;
use protocol::{Command, Fence, Millis, RecordName, StoredResponse};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::history::{History, Name, Told, What};
use super::upstream::{Job, Reply, Upstream};

const SUBMIT_WAIT: Duration = Duration::from_secs(2);
const SUBMIT_GRACE: Duration = Duration::from_millis(250);
/// How long a client waits.
const ANSWER_WITHIN: Millis = Millis::from_secs(5);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A request under way.
pub(crate) struct Driver {
    pub(crate) node: Node,
    pub(crate) upstream: Upstream,
    pub(crate) claim: Claim,
    pub(crate) name: Name,
    pub(crate) payload: u8,
    pub(crate) history: History,
    pub(crate) client: Option<oneshot::Sender<Told>>,
}

/// What the driver keeps beside the machine.
struct Run {
    driver: Driver,
    execution: Execution,
    replies: FuturesUnordered<Boxed<Event>>,
    exchange: Option<Boxed<(News, Option<String>)>>,
    attempt: Option<(Fence, Fence)>,
    nonce: Option<String>,
}

/// Now, for deadlines: on the clock of the paused runtime.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Driver {
    /// Runs to the end, also when the client has left.
    pub(crate) async fn run(self) {
        let begun = boot(&self.node);
        let (execution, mut actions) = Execution::begin(self.claim.clone(), ANSWER_WITHIN, begun);
        let mut run = Run {
            driver: self,
            execution,
            replies: FuturesUnordered::new(),
            exchange: None,
            attempt: None,
            nonce: None,
        };
        loop {
            for action in actions {
                if matches!(action, Action::Finish) {
                    return;
                }
                run.carry_out(action);
            }
            let event = run.next_event().await;
            actions = run.execution.handle(boot(&run.driver.node), event);
        }
    }
}

impl Run {
    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Submit { number, command } => self.submit(number, command),
            Action::Read { number, name } => self.read(number, name),
            Action::Connect { fence, generation, .. } => {
                self.attempt = Some((fence, generation));
                let (took, there) = self.driver.upstream.connecting();
                self.exchange = Some(Box::pin(async move {
                    sleep(took).await;
                    (if there { News::Ready } else { News::Unsent { pooled: false } }, None)
                }));
            }
            Action::Send => self.send(),
            Action::CloseUpstream => self.exchange = None,
            Action::Answer(answer) => self.answer(answer),
            Action::Finish => {}
        }
    }

    fn submit(&mut self, number: u32, command: Command) {
        if let Command::Release { grant, .. } = &command {
            let (name, fence) = (self.driver.name.clone(), grant.fence.as_number());
            self.driver.history.add(What::Released { name, fence });
        }
        if let Command::Complete { grant, .. } = &command {
            let (name, fence) = (self.driver.name.clone(), grant.fence.as_number());
            self.driver.history.add(What::Completing { name, fence });
        }
        let node = self.driver.node.clone();
        if let Command::Claim(claim) = &command
            && let Some(decided) = node.answer_applied(claim)
        {
            let event = Event::Reply { number, reply: Ok(decided) };
            return self.replies.push(Box::pin(std::future::ready(event)));
        }
        self.replies.push(Box::pin(async move {
            let reply = in_time(node.submit(command, now() + SUBMIT_WAIT)).await;
            Event::Reply { number, reply: reply.map_err(failure) }
        }));
    }

    fn read(&mut self, number: u32, name: RecordName) {
        let node = self.driver.node.clone();
        self.replies.push(Box::pin(async move {
            let reply = in_time(node.read(&name, now() + SUBMIT_WAIT)).await;
            let reply = reply
                .map(|found| RecordAt { at: found.basis.time, record: found.record.map(Box::new) })
                .map_err(failure);
            Event::Read { number, reply }
        }));
    }

    fn send(&mut self) {
        let Some((fence, generation)) = self.attempt else { return };
        if boot(&self.driver.node) >= self.execution.send_before() {
            self.exchange =
                Some(Box::pin(std::future::ready((News::Unsent { pooled: false }, None))));
            return;
        }
        let job = Job {
            name: self.driver.name.clone(),
            payload: self.driver.payload,
            generation: generation.as_number(),
            fence: fence.as_number(),
        };
        let reply = self.driver.upstream.send(job);
        self.exchange = Some(Box::pin(async move {
            let answered = |status, disposition| News::Answered { status, disposition };
            match reply.await {
                Ok(Reply::Done { nonce }) => {
                    let stored = Disposition::Store(stored(&nonce));
                    (answered(201, stored), Some(nonce))
                }
                Ok(Reply::Retryable) => (answered(503, Disposition::Retryable), None),
                Ok(Reply::Ambiguous) => (answered(504, Disposition::Unknown), None),
                Ok(Reply::Broken) | Err(_) => (News::Broken, None),
            }
        }));
    }

    fn answer(&mut self, answer: Answer) {
        let generation = self.attempt.map_or(0, |(_, generation)| generation.as_number());
        let told = match answer {
            Answer::Own => Told::Own { generation, nonce: self.nonce.clone().unwrap_or_default() },
            Answer::Replay(replay) => Told::Replay {
                generation: replay.generation.as_number(),
                nonce: nonce_of(&replay.response),
            },
            Answer::InProgress { .. } => Told::InProgress,
            Answer::Reused { .. } => Told::Reused,
            Answer::Indeterminate => Told::Indeterminate,
            other => Told::Other(format!("{other:?}")),
        };
        if let Some(client) = self.driver.client.take() {
            drop(client.send(told));
        }
    }

    async fn next_event(&mut self) -> Event {
        let now = boot(&self.driver.node);
        let wait = self.execution.wake_at().map(|at| at.minus(now).to_std());
        let wake = async {
            match wait {
                Some(wait) => sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        let news = async {
            match &mut self.exchange {
                Some(step) => step.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            (news, nonce) = news => {
                self.exchange = None;
                self.nonce = nonce;
                Event::Upstream(news)
            }
            Some(event) = self.replies.next() => event,
            () = wake => Event::Wake,
        }
    }
}

/// The stored response of an execution.
pub(crate) fn stored(nonce: &str) -> StoredResponse {
    let body = StoredBody::Whole(nonce.as_bytes().to_vec());
    StoredResponse { status: 201, headers: vec![], body }
}

/// The execution that a stored response tells of.
pub(crate) fn nonce_of(response: &StoredResponse) -> String {
    match &response.body {
        StoredBody::Whole(body) => String::from_utf8_lossy(body).into_owned(),
        other => format!("{other:?}"),
    }
}

fn boot(node: &Node) -> Millis {
    Millis::new(node.boot().as_millis() as u64)
}

async fn in_time<T>(reply: impl Future<Output = Result<T, SubmitError>>) -> Result<T, SubmitError> {
    timeout(SUBMIT_WAIT + SUBMIT_GRACE, reply).await.unwrap_or(Err(SubmitError::TimedOut))
}

fn failure(error: SubmitError) -> Failure {
    match error.certainty() {
        Certainty::Definite if error.is_lasting() => Failure::Lasting,
        Certainty::Definite => Failure::Definite,
        Certainty::Indefinite => Failure::Indefinite,
    }
}
