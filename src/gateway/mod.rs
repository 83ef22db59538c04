//! The gateway: a reverse proxy that makes `POST` and `PATCH` requests happen once.
//!
//! The life of a request: the listener has checked that its head is strict HTTP; `operations` says
//! whether it is protected. What is not protected passes through (`pass`). What is protected needs
//! a tenant, a key that can be read, and a body within the limit; then it becomes a job (`execute`)
//! that claims the key, runs the upstream (`exchange`) and makes the outcome durable, detached from
//! the client, who is given the answer (`answer`) when there is one.

mod answer;
mod cors;
mod exchange;
mod execute;
mod forward;
mod keeping;
mod measure;
pub mod metrics;
mod operations;
mod pace;
mod pass;
mod request;
mod rest;
mod shadow;
mod upstream;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::HOST;
use http::request::Parts;
use protocol::command::Claim;
use protocol::fingerprint::{OutlineKey, Print};
use protocol::{HolderId, RecordName, Scope, Token};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::Instrument;

use answer::Terms;
use exchange::{Outgoing, Waiting};
use execute::Job;
use forward::{Caller, ForwardedKey};
use keeping::Keeping;
use metrics::InFlight;
use operations::Course;
use pace::Paces;
use request::SentKey;
use upstream::Upstream;

use crate::config::{GatewaySettings, Matched, Operation, Policy};
use crate::judge::{BootClock, Judge};
use crate::listener::ClientAddr;
use crate::problem::{Code, Problem};
use crate::rate_limit::RateLimits;
use crate::subject::{Described, Subject, What};
use crate::tenant::{Identity, Tenants, Use};
use crate::terms::Published;

/// The most executions under way. Each may hold a request and an answer of up to a mebibyte, and
/// usually holds a few kilobytes. A shard that is lost for long fills this up with outcomes that
/// wait to be made durable; new claims could not be decided then either.
const EXECUTIONS_MAX: u32 = 2048;

/// The gateway of one process. Clones share it.
#[derive(Clone)]
pub struct Gateway<J> {
    shared: Arc<Shared<J>>,
}

struct Shared<J> {
    judge: J,
    policy: Arc<Policy>,
    tenants: Tenants,
    rates: RateLimits,
    settings: GatewaySettings,
    upstream: Upstream,
    executions: Arc<Semaphore>,
    terms: Published,
    shadow: shadow::Shadow,
    paces: Paces,
}

impl<J: Judge> Gateway<J> {
    /// A gateway whose claims `judge` decides.
    pub fn new(judge: J, policy: Arc<Policy>, tenants: Tenants, settings: GatewaySettings) -> Self {
        let clock = judge.clone();
        let clock: BootClock = Arc::new(move || clock.boot());
        let rates = RateLimits::new(&policy, Arc::clone(&clock));
        let paces = Paces::new(&policy, &clock);
        let upstream = Upstream::new(&settings.upstream, settings.upstream_tls.as_ref(), clock);
        let executions = Arc::new(Semaphore::new(EXECUTIONS_MAX as usize));
        let terms = Published::new(Some((&settings).into()));
        Self {
            shared: Arc::new(Shared {
                judge,
                policy,
                tenants,
                rates,
                settings,
                upstream,
                executions,
                terms,
                shadow: shadow::Shadow::default(),
                paces,
            }),
        }
    }

    /// The gateway as what a [listener](crate::listener) serves.
    pub fn router(&self) -> Router {
        let router = Router::new().fallback(serve::<J>).with_state(self.clone());
        match &self.shared.policy.cors {
            Some(cors) => cors::rendered(router, cors, &self.shared.policy),
            None => router,
        }
    }

    /// Waits until no execution is under way, for at most `within`; whether that came to be. To be
    /// called when no more requests come in. An execution that is let go ends as its lease says.
    pub async fn drain(&self, within: Duration) -> bool {
        let all = self.shared.executions.acquire_many(EXECUTIONS_MAX);
        tokio::time::timeout(within, all).await.is_ok()
    }

    async fn answer(&self, request: Request, client: IpAddr) -> Response {
        let (mut head, body) = request.into_parts();
        if !head.headers.contains_key(HOST) {
            // HTTP/1.0 has no Host; the upstream's own is the only name there is for it.
            head.headers.insert(HOST, self.shared.upstream.authority());
        }
        let policy = &self.shared.policy;
        let terms = &self.shared.terms;
        if let Some(terms) = terms.answer(policy, &head.method, head.uri.path(), &head.headers) {
            return terms;
        }
        let (matched, course) =
            operations::course(policy, &head.method, head.uri.path(), &head.headers);
        let style = matched.operation.style;
        if let Err(refused) = request::refuse_hidden(&head.headers, matched.operation) {
            return style.render(refused);
        }
        if shadow::is_on(matched.operation) && course.is_of_keys() {
            return self.observe(head, body, &matched, client).await;
        }
        if course == Course::Protect {
            let ignored = request::ignores_key(&head.headers, matched.operation);
            let echoed = request::echoed_key(&head.headers, matched.operation);
            let answer = self.protect(head, body, &matched, client).await;
            let mut answer = answer.unwrap_or_else(|problem| style.render(problem));
            if let Some(key) = echoed {
                answer.headers_mut().insert(forward::KEY, key);
            }
            if ignored {
                answer.headers_mut().insert(forward::STATUS, forward::IGNORED);
            }
            return answer;
        }
        if let Err(refused) = self.admit_unprotected(&head).await {
            return style.render(refused);
        }
        let caller = self.caller(client, None, matched.operation);
        let ignored = course == Course::PassIgnoringKey;
        let upstream = &self.shared.upstream;
        pass::pass::<J>(upstream, head, body, &caller, (style, ignored), None).await
    }

    /// Passes a request, and finds out what would have been said of it.
    async fn observe(
        &self,
        head: Parts,
        body: Body,
        matched: &Matched<'_>,
        client: IpAddr,
    ) -> Response {
        let style = matched.operation.style;
        if let Err(refused) = self.admit_unprotected(&head).await {
            return style.render(refused);
        }
        let described = Described {
            method: head.method.clone(),
            target: origin(&head),
            headers: head.headers.clone(),
            body: Bytes::new(),
            limit: self.shared.settings.max_request_body.as_u64(),
        };
        let watch = shadow::Watch::new(self.clone(), described, self.identity(&head).await);
        let body = shadow::tee(body, Arc::clone(&watch));
        let caller = self.caller(client, None, matched.operation);
        let upstream = &self.shared.upstream;
        pass::pass(upstream, head, body, &caller, (style, false), Some(watch)).await
    }

    async fn protect(
        &self,
        head: Parts,
        body: Body,
        matched: &Matched<'_>,
        client: IpAddr,
    ) -> Result<Response, Problem> {
        let operation = matched.operation;
        let identity = self.identity(&head).await?;
        self.shared.rates.admit(&identity.tenant)?;
        request::refuse_two_types(&head.headers)?;
        let sent = match operation.natural_key.as_slice() {
            [] => Some(request::sent_key(&head.headers, operation)?),
            _natural => None,
        };
        let limit = self.shared.settings.max_request_body.as_u64();
        let body = request::whole_body(body, limit).await?;
        let permit = self.permit()?;
        let caller = self.caller(client, Some(&identity.tenant), operation);
        let (target, headers) =
            (request::target(&head), forward::request_headers(&head.headers, &caller));
        let described_target = origin(&head);
        let described = Described {
            method: head.method,
            target: described_target,
            headers: head.headers,
            body,
            limit,
        };
        let sub_account = described.sub_account(&operation.scope_by)?;
        let scope = matched.scope(&identity.tenant, &identity.credential, sub_account);
        let (name, key) = named(&scope, sent, &described, operation)?;
        let outgoing = Outgoing {
            target,
            headers,
            method: described.method.clone(),
            key,
            body: described.body.clone(),
        };
        // Dropped with this future: when the client is answered, and when it leaves.
        let (_waits, waiting) = Waiting::new();
        let key = OutlineKey::new(&self.shared.judge.outline_secret(), &name);
        let subject = Subject::new(What::Request(described), key);
        let print = subject.print(&operation.fingerprint)?;
        let claim = self.claim(name, print, matched, &identity)?;
        let job = Job {
            judge: self.shared.judge.clone(),
            upstream: self.shared.upstream.clone(),
            claim,
            subject,
            answer_within: operation.answer_within,
            outgoing,
            keeping: Keeping::new(operation, self.shared.settings.answers_from)
                .paced(self.shared.paces.of(&operation.name)),
            terms: terms(operation),
            waiting,
        };
        let (client, answer) = oneshot::channel();
        let span = tracing::info_span!("execution", operation = %matched.name);
        tokio::spawn(job.run(client, InFlight::new(permit)).instrument(span));
        answer.await.map_err(|_| Problem::new(Code::Internal, "the execution met a defect"))
    }

    /// Counts a request that passes through, where it brings a credential that the policy knows: a
    /// tenant does not get around its limit by leaving its keys out. Whoever brings none is the
    /// upstream's to judge.
    async fn admit_unprotected(&self, head: &Parts) -> Result<(), Problem> {
        if !self.shared.rates.limits() {
            return Ok(());
        }
        match self.identity(head).await {
            Ok(identity) => self.shared.rates.admit(&identity.tenant),
            Err(_nobody_known) => Ok(()),
        }
    }

    async fn identity(&self, head: &Parts) -> Result<Identity, Problem> {
        let now = self.shared.judge.wall();
        self.shared.tenants.authenticate(&head.headers, Use::Gateway, now).await
    }

    fn caller<'a>(
        &'a self,
        address: IpAddr,
        tenant: Option<&'a str>,
        operation: &'a Operation,
    ) -> Caller<'a> {
        Caller {
            address,
            tenant,
            tenant_header: operation.forward.tenant_header.as_ref(),
            authorization: operation.forward.authorization,
            auth: &self.shared.policy.auth,
            read: operation.read_headers().collect(),
        }
    }

    /// Room for one more execution.
    fn permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.shared.executions).try_acquire_owned().map_err(|_| {
            Problem::unavailable("too many executions are under way; nothing was executed")
        })
    }

    /// The first copy of the claim for a request.
    fn claim(
        &self,
        name: RecordName,
        print: Print,
        matched: &Matched<'_>,
        identity: &Identity,
    ) -> Result<Claim, Problem> {
        let operation = matched.operation;
        let seen = self.shared.judge.seen(&name)?;
        // One attempt per execution: it is never repeated by another process, nor after a restart.
        let attempt: [u8; 16] = rand::random();
        Ok(Claim {
            holder: HolderId::of(&identity.qualified(), &attempt),
            seen,
            print,
            lease: operation.lease,
            terms: operation.terms(),
            token: Token::new(rand::random()),
            operation: matched.unnamed_operation(),
            name,
        })
    }
}

/// The request's target as it is compared.
fn origin(head: &Parts) -> String {
    head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned()
}

/// The name of a request's record, and the key that the upstream gets; `sent`: the client's, unless
/// the request makes its own.
fn named(
    scope: &Scope,
    sent: Option<SentKey>,
    described: &Described,
    operation: &Operation,
) -> Result<(RecordName, ForwardedKey), Problem> {
    let name = match &sent {
        Some(sent) => RecordName::new(scope, &sent.key),
        None => RecordName::natural(scope, &described.natural_key(&operation.natural_key)?),
    };
    let key = match sent {
        Some(sent) if !operation.forward.derived_key => ForwardedKey::Raw(sent.raw),
        _ => ForwardedKey::Derived { name: name.clone(), headers: operation.headers.clone() },
    };
    Ok((name, key))
}

async fn serve<J: Judge>(
    State(gateway): State<Gateway<J>>,
    Extension(ClientAddr(client)): Extension<ClientAddr>,
    request: Request,
) -> Response {
    gateway.answer(request, client.ip()).await
}

fn terms(operation: &Operation) -> Terms {
    Terms {
        retention: operation.retention,
        indeterminate_status: operation.indeterminate_status,
        replay: operation.replay,
        style: operation.style,
    }
}
