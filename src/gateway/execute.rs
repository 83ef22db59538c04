//! The driver of one execution: carries out what [`Execution`] decides.
//!
//! It runs as a task of its own, detached from the client's connection: a client that leaves
//! changes nothing. The machine decides; here are the clock, the shard, the upstream and the
//! client.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::{Duration, Instant};

use axum::response::Response;
use cluster::{Certainty, SubmitError};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use protocol::command::{Claim, Command, Grant};
use protocol::execution::{
    Action, Answer, Disposition, Event, Execution, Failure, RecordAt, Upstream as Told,
};
use protocol::{Millis, Outcome, RecordName};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::{self, Terms};
use super::exchange::{self, Answered, AnsweredBody, News, Outgoing, Waiting};
use super::forward::Attempt;
use super::keeping::Keeping;
use super::measure;
use super::metrics::InFlight;
use super::upstream::{Connection, Upstream};
use crate::config::ReplayMode;
use crate::judge::Judge;
use crate::problem::Problem;
use crate::subject::Subject;

/// How long one submission may take. A leader that is lost is replaced within two seconds, and a
/// copy of a claim lives four at most: what takes longer is better asked again.
const SUBMIT_WAIT: Duration = Duration::from_secs(2);

/// How much longer than its deadline a submission is waited for, so that the judge's own word on
/// what it did not do, which may be definite, comes first.
const SUBMIT_GRACE: Duration = Duration::from_millis(250);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What an execution is made of.
pub(crate) struct Job<J> {
    /// Decides commands.
    pub(crate) judge: J,
    /// The user's API.
    pub(crate) upstream: Upstream,
    /// The claim; its `seen` is what the judge says now.
    pub(crate) claim: Claim,
    /// What the claim is about.
    pub(crate) subject: Subject,
    /// How long the client waits.
    pub(crate) answer_within: Millis,
    /// The request.
    pub(crate) outgoing: Outgoing,
    /// What is kept of the answer.
    pub(crate) keeping: Keeping,
    /// How the client is answered.
    pub(crate) terms: Terms,
    /// Whether the client still waits.
    pub(crate) waiting: Waiting,
}

/// A job under way.
struct Driver<J> {
    job: Job<J>,
    execution: Execution,
    /// Taken by the answer.
    client: Option<oneshot::Sender<Response>>,
    /// Submissions and reads on their way; each has a deadline, and the machine has at most a few.
    replies: FuturesUnordered<Boxed<Replied>>,
    /// Why the claim is refused for longer than the client waits, once that is known.
    refusal: Option<SubmitError>,
    exchange: Exchange,
    /// The attempt that the exchange is about.
    attempt: Option<Attempt>,
    /// The upstream's answer, until the client is given it.
    answered: Option<Box<Answered>>,
}

/// What came back from the shard: as the machine is told it, and an error that lasts.
type Replied = (Event, Option<SubmitError>);

/// Where the exchange with the upstream is.
enum Exchange {
    /// There is none, or its news has been told.
    Idle,
    /// A step is under way.
    Step(Boxed<News>),
    /// A connection waits for the permission to send.
    Ready(Box<Connection>),
}

impl<J: Judge> Job<J> {
    /// Runs the job to its end. `client` gets the answer, once; `_in_flight` is held meanwhile.
    pub(crate) async fn run(self, client: oneshot::Sender<Response>, _in_flight: InFlight) {
        let begun = now(&self.judge);
        let (execution, actions) = Execution::begin(self.claim.clone(), self.answer_within, begun);
        let driver = Driver {
            job: self,
            execution,
            client: Some(client),
            replies: FuturesUnordered::new(),
            refusal: None,
            exchange: Exchange::Idle,
            attempt: None,
            answered: None,
        };
        driver.drive(actions).await;
    }
}

impl<J: Judge> Driver<J> {
    async fn drive(mut self, mut actions: Vec<Action>) {
        loop {
            for action in actions {
                if self.carry_out(action).is_break() {
                    return;
                }
            }
            let event = self.next_event().await;
            let event = self.compared(event);
            actions = self.execution.handle(now(&self.job.judge), event);
        }
    }

    fn carry_out(&mut self, action: Action) -> ControlFlow<()> {
        match action {
            Action::Submit { number, command } => self.submit(number, command),
            Action::Read { number, name } => self.read(number, name),
            Action::Connect { fence, generation, attempt_no, fresh } => {
                self.attempt = Some(Attempt { fence, generation, attempt_no });
                let step = exchange::connect(self.job.upstream.clone(), fresh);
                self.exchange = Exchange::Step(Box::pin(step));
            }
            Action::Send => self.send(),
            Action::CloseUpstream => self.exchange = Exchange::Idle,
            Action::Answer(answer) => self.answer(answer),
            Action::Finish => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn submit(&mut self, number: u32, command: Command) {
        let judge = self.job.judge.clone();
        let started = Instant::now();
        let claims = matches!(command, Command::Claim(_));
        // A replica may miss a revision that the log has.
        if let Command::Claim(claim) = &command
            && self.job.terms.replay == ReplayMode::Snapshot
            && let Some(decided) = judge.answer_applied(claim)
        {
            super::metrics::answered_here();
            let reply = (Event::Reply { number, reply: Ok(decided) }, None);
            return self.replies.push(Box::pin(std::future::ready(reply)));
        }
        self.replies.push(Box::pin(async move {
            let reply = in_time(judge.submit(command, started + SUBMIT_WAIT)).await;
            if claims {
                super::metrics::claimed(started.elapsed(), reply.is_ok());
            }
            let lasting = reply.as_ref().err().filter(|error| claims && error.is_lasting());
            let lasting = lasting.cloned();
            (Event::Reply { number, reply: reply.map_err(|error| failure(&error)) }, lasting)
        }));
    }

    fn read(&mut self, number: u32, name: RecordName) {
        let judge = self.job.judge.clone();
        self.replies.push(Box::pin(async move {
            let reply = in_time(judge.read(&name, Instant::now() + SUBMIT_WAIT)).await;
            let reply = reply
                .map(|found| RecordAt { at: found.basis.time, record: found.record.map(Box::new) })
                .map_err(|error| failure(&error));
            (Event::Read { number, reply }, None)
        }));
    }

    /// Sends the request. Between this permission and the first byte lie a queue and a task switch,
    /// so the permission's own limit is looked at again where the byte leaves.
    fn send(&mut self) {
        let exchange = std::mem::replace(&mut self.exchange, Exchange::Idle);
        // The machine permits a send only in answer to a connection that is ready.
        let (Exchange::Ready(connection), Some(attempt)) = (exchange, self.attempt) else { return };
        let limit = self.execution.send_before().to_std();
        let job = &self.job;
        self.exchange = Exchange::Step(Box::pin(exchange::send(
            &job.outgoing,
            attempt,
            *connection,
            job.upstream.clone(),
            limit,
            job.keeping.clone(),
            job.waiting.clone(),
        )));
    }

    /// Looks at a refusal that says that the request is another one: by the rules of the record
    /// it may be the same.
    fn compared(&mut self, event: Event) -> Event {
        let Event::Reply { number, reply: Ok(decided) } = &event else { return event };
        let Outcome::Reused { stored } = &decided.outcome else { return event };
        let claim = &mut self.job.claim;
        let Some(print) = self.job.subject.reprinted(stored, &claim.print) else { return event };
        claim.print = print.clone();
        Event::Reprinted { number: *number, basis: decided.basis, print: Box::new(print) }
    }

    fn answer(&mut self, answer: Answer) {
        let Some(client) = self.client.take() else { return };
        let mut answered = self.answered.take();
        if let (Answer::Own, Some(answered)) = (&answer, &mut answered) {
            self.measure(answered);
        }
        let response = match (answer, self.refusal.take()) {
            (Answer::ShardUnavailable, Some(refusal)) => {
                self.job.terms.style.render(Problem::from(refusal))
            }
            (Answer::Reused { stored }, _) => {
                let differs = self.job.subject.differences(&stored);
                self.job.terms.style.render(Problem::reused(differs))
            }
            (answer, _) => answer::render(answer, answered, &self.job.terms, self.job.judge.wall()),
        };
        tracing::debug!(status = response.status().as_u16(), "answered");
        // A client that has left is not told; the outcome stands all the same.
        let _ = client.send(response);
    }

    /// Sees to it that the record learns what its marker cannot say yet.
    fn measure(&self, answered: &mut Answered) {
        let Disposition::Store(marker) = self.job.keeping.disposition(answered) else { return };
        let (AnsweredBody::Flowing(rest), Some(attempt)) = (&mut answered.body, &self.attempt)
        else {
            return;
        };
        let claim = &self.job.claim;
        let grant = Grant { fence: attempt.fence, token: claim.token };
        let told = measure::record(
            self.job.judge.clone(),
            claim.name.clone(),
            grant,
            marker,
            rest.measure(),
        );
        tokio::spawn(told);
    }

    /// Waits for the next thing to happen.
    async fn next_event(&mut self) -> Event {
        let now = now(&self.job.judge);
        let wait = self.execution.wake_at().map(|at| at.minus(now).to_std());
        let wake = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            news = self.exchange.news() => self.hear(news),
            Some((event, lasting)) = self.replies.next() => {
                self.refusal = lasting.or(self.refusal.take());
                event
            }
            () = wake => Event::Wake,
        }
    }

    fn hear(&mut self, news: News) -> Event {
        self.exchange = Exchange::Idle;
        Event::Upstream(match news {
            News::Ready(connection) => {
                self.exchange = Exchange::Ready(connection);
                Told::Ready
            }
            News::Unsent { pooled } => Told::Unsent { pooled },
            News::Broken => Told::Broken,
            News::Answered(answered) => {
                let status = answered.head.status.as_u16();
                let disposition = self.job.keeping.disposition(&answered);
                self.answered = Some(answered);
                Told::Answered { status, disposition }
            }
        })
    }
}

impl Exchange {
    /// The news of the step that is under way; never comes when there is none. Dropping this loses
    /// nothing: the step stays where it is.
    async fn news(&mut self) -> News {
        match self {
            Self::Step(step) => step.await,
            Self::Idle | Self::Ready(_) => std::future::pending().await,
        }
    }
}

/// The boot-time clock as the machine reads it.
fn now<J: Judge>(judge: &J) -> Millis {
    Millis::new(u64::try_from(judge.boot().as_millis()).unwrap_or(u64::MAX))
}

/// The answer of a judge, or that none came in time.
async fn in_time<T>(reply: impl Future<Output = Result<T, SubmitError>>) -> Result<T, SubmitError> {
    timeout(SUBMIT_WAIT + SUBMIT_GRACE, reply).await.unwrap_or(Err(SubmitError::TimedOut))
}

/// An error as the machine is told it.
fn failure(error: &SubmitError) -> Failure {
    match error.certainty() {
        Certainty::Definite if error.is_lasting() => Failure::Lasting,
        Certainty::Definite => Failure::Definite,
        Certainty::Indefinite => Failure::Indefinite,
    }
}

#[cfg(test)]
mod tests;
