//! What a process and a cluster are told: `oncegate.toml` and `policy.toml` as checked types.
//!
//! A file is read once into these types, or refused with findings that name file, line, column and
//! rule. No later layer looks at text again. A setting that this version does not honour is refused
//! as well, never ignored.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use bytesize::ByteSize;
use cluster::{NodeId, Peer, Quota, Secret};
use http::{HeaderName, Method, StatusCode, Uri};
use protocol::fields::JsonPointer;
use protocol::fingerprint::Rules;
use protocol::policy::{AnswersFrom, StoreRules};
use protocol::record::{OnUnknown, Retention, Terms};
use protocol::{Millis, Scope};

use crate::problem::Style;

pub use address::parse_upstream;
pub use auth::{AuthSettings, JwtSettings, TrustedHeader};
pub use cors::Cors;
pub(crate) use duration::{duration_text, parse_duration};
pub use fields::Field;
pub use file::Kind;
pub use finding::{Finding, Refused, Severity};
pub(crate) use operation::KEY_MAX;
pub use profile::{Profile, ReplayMode};
pub use route::{Route, RouteError};
pub(crate) use upstream_tls::server_name;
pub use upstream_tls::{UpstreamTls, UpstreamTlsError};

mod address;
mod auth;
mod compared;
mod cors;
mod duration;
mod fields;
mod file;
mod finding;
mod lint;
mod naming;
mod natural;
mod operation;
mod policy;
mod process;
mod profile;
mod route;
mod section;
mod spelling;
mod stored;
#[cfg(test)]
mod tests;
mod upstream_tls;

/// The longest name of an operation, in bytes: a method and the longest path of a request.
const OPERATION_BYTES_MAX: usize = 8 + crate::strict::TARGET_BYTES_MAX;

/// `oncegate.toml`: what one process is told.
#[derive(Clone, Debug)]
pub struct Process {
    /// The cluster that the process belongs to.
    pub cluster: ClusterSettings,
    /// The node that the process is; `None` for a gateway without one.
    pub node: Option<NodeSettings>,
    /// Where the claims API, health and metrics are served.
    pub api: ApiSettings,
    /// The gateway, where the process is one too.
    pub gateway: Option<GatewaySettings>,
}

/// `[cluster]`.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The cluster's name.
    pub name: String,
    /// Number of shards, 1 to 4096.
    pub shards: u16,
    /// What nodes prove themselves to each other with.
    pub secret: Secret,
    /// The first members: one, three or five, ids unique.
    pub peers: Vec<Peer>,
    /// The policy's file, where the process file names one.
    pub policy: Option<PathBuf>,
}

/// `[node]`.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The node's id, one of the peers'.
    pub id: NodeId,
    /// Where the log and the records are kept.
    pub data_dir: PathBuf,
    /// Where other nodes reach it.
    pub peer_listen: SocketAddr,
}

/// `[api]`.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Where the claims API, health and metrics are served.
    pub listen: SocketAddr,
}

/// `[gateway]`.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Where clients reach the gateway.
    pub listen: SocketAddr,
    /// The user's API: `http` or `https`, an authority, and no path but `/`.
    pub upstream: Uri,
    /// Whom to believe to be the upstream; there where it is `https`.
    pub upstream_tls: Option<UpstreamTls>,
    /// The region the gateway stands in.
    pub region: String,
    /// Whether anything between the gateway and the application makes up answers of its own.
    pub answers_from: AnswersFrom,
    /// The largest request body that a protected request may have.
    pub max_request_body: ByteSize,
}

/// `policy.toml`: what the whole cluster is told.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Which requests are protected where no operation matches.
    pub protect: Protect,
    /// How many requests each tenant may send, where that is limited.
    pub rate_limit: Option<RateLimit>,
    /// Which web pages' scripts may call the gateway; `None`: what the upstream says holds.
    pub cors: Option<Cors>,
    /// How callers prove their tenant besides by an API key.
    pub auth: AuthSettings,
    /// Who may ask. Names are unique, and no two credentials have the same key.
    pub tenants: Vec<TenantSettings>,
    /// Who may look at and settle records of all tenants. Names are unique, and so are tokens.
    pub admins: Vec<AdminSettings>,
    /// The operations, more literal routes first, so that the first match is the right one.
    operations: Vec<Operation>,
    /// Operations by their names.
    by_name: HashMap<String, usize>,
    /// What an unmatched route is protected with.
    unlisted: Operation,
    /// Digest of what names records.
    naming: [u8; 32],
}

/// Which requests without an operation of their own are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protect {
    /// Every `POST` and `PATCH` that brings a key.
    Keyed,
    /// None.
    Listed,
}

/// How many requests one tenant may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests that it may send every second, in the long run.
    pub per_second: NonZeroU32,
    /// Requests that it may send at once after it has sent none for a while.
    pub burst: NonZeroU32,
}

/// A tenant and its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSettings {
    /// The tenant's name, a part of every record's name.
    pub name: String,
    /// How its callers prove themselves.
    pub credentials: Vec<CredentialSettings>,
    /// How much it may store.
    pub quota: Quota,
}

/// One credential of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialSettings {
    /// The credential's name, unique within the tenant.
    pub name: String,
    /// SHA-256 of the API key.
    pub api_key_sha256: [u8; 32],
    /// Whether it may call through the gateway.
    pub gateway: bool,
    /// Whether it may call the claims API.
    pub claims: bool,
}

/// A person or a program that looks after the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// The name under which decisions are kept.
    pub name: String,
    /// SHA-256 of the token.
    pub token_sha256: [u8; 32],
    /// What it may do.
    pub role: Role,
}

/// What an admin may do; each may do all that those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    Viewer,
    /// Settle and forget records.
    Operator,
}

/// One operation's settings, `[defaults]` and `money` worked in.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its name, a part of its records' names. Empty only for the settings of unlisted routes.
    pub name: String,
    /// The requests that it is about; `None` only for the settings of unlisted routes.
    pub route: Option<Route>,
    /// Whether a request without a key is refused.
    pub required: bool,
    /// The members of a JSON body that make the key; where there are any, no header brings it.
    pub natural_key: Vec<JsonPointer>,
    /// The headers that may bring the key; at least one.
    pub headers: Vec<HeaderName>,
    /// The longest key in bytes.
    pub key_max: usize,
    /// How long a lease lasts, at least [`protocol::lease::LEASE_MIN`].
    pub lease: Millis,
    /// How long the client waits for an answer.
    pub answer_within: Millis,
    /// How long an execution may take, at least `lease`.
    pub max_execution: Millis,
    /// What happens when nobody can tell whether the work was done.
    pub on_unknown: OnUnknown,
    /// How long outcomes are kept.
    pub retention: Retention,
    /// The shortest retention that a caller of the claims API may ask for.
    pub retention_min: Millis,
    /// What of requests is compared.
    pub fingerprint: Rules,
    /// What the upstream's statuses mean.
    pub store: StoreRules,
    /// Header fields kept besides the usual ones.
    pub store_headers: Vec<HeaderName>,
    /// The largest response body that is kept.
    pub max_snapshot: ByteSize,
    /// The status of `outcome-indeterminate`: 409 or 503.
    pub indeterminate_status: StatusCode,
    /// What the upstream is told about the caller.
    pub forward: Forward,
    /// Whose keys share a key space.
    pub isolate: Isolate,
    /// Whether a key belongs to an operation by its name or by what its record says.
    pub scope: KeyScope,
    /// The fields of a request whose values keep key spaces apart.
    pub scope_by: Vec<Field>,
    /// The set of defaults behind these settings.
    pub profile: Profile,
    /// Whether a key header must hold an RFC 9651 String, in quotes.
    pub quoted_keys: bool,
    /// Whether answers say the key that they are for, in `Idempotency-Key`.
    pub echo_key: bool,
    /// How clients are told of problems.
    pub style: Style,
    /// What a repeat of a completed request is answered with.
    pub replay: ReplayMode,
    /// Whether the gateway enforces any of this.
    pub mode: Mode,
}

/// What the gateway does with an operation's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It protects them.
    Enforce,
    /// It passes all of them, and counts what it would have said.
    Shadow,
}

/// How a key belongs to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// The operation is a part of the name: the same key for another one is another key.
    Route,
    /// It is not: the same key for another operation is refused.
    Account,
}

/// Whose keys share a key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolate {
    /// Those of all credentials of a tenant: each may be answered what another's request got.
    Tenant,
    /// Those of one credential, by its configured name, so that changing its secret keeps them.
    Credential,
}

/// What the upstream is told about the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Whether the upstream gets a key of the generation's own in the place of the client's.
    pub derived_key: bool,
    /// The header in which the upstream gets the tenant's name. A caller's own is removed.
    pub tenant_header: Option<HeaderName>,
    /// Whether the caller's `Authorization` is forwarded.
    pub authorization: bool,
}

/// The operation that a request belongs to.
#[derive(Clone, Debug)]
pub struct Matched<'a> {
    /// Its settings.
    pub operation: &'a Operation,
    /// The operation's name as it stands in records' names: for an unlisted route method and path.
    pub name: Cow<'a, str>,
    /// Whether the operation is listed in the policy.
    pub listed: bool,
}

impl Policy {
    /// The operation of a request. An unlisted route has the default settings and is named by
    /// method and literal path, so that its keys are kept apart from every other route's.
    pub fn matching(&self, method: &Method, path: &str) -> Matched<'_> {
        let wanted = route::RequestPath::new(path);
        let listed = self
            .operations
            .iter()
            .find(|operation| operation.route.as_ref().is_some_and(|r| r.matches(method, &wanted)));
        match listed {
            Some(operation) => {
                Matched { operation, name: operation.name.as_str().into(), listed: true }
            }
            None => Matched {
                operation: &self.unlisted,
                name: format!("{method} {path}").into(),
                listed: false,
            },
        }
    }

    /// The operation that a caller of the claims API names: a listed name, `METHOD /path`, or a
    /// name of its own for work that no route begins, with the default settings. `None` when it is
    /// no name, or when only listed operations are protected.
    pub fn named<'a>(&'a self, name: &str) -> Option<Matched<'a>> {
        if name.len() > OPERATION_BYTES_MAX {
            return None;
        }
        if let Some(&index) = self.by_name.get(name) {
            let operation = &self.operations[index];
            return Some(Matched { operation, name: operation.name.as_str().into(), listed: true });
        }
        let matched = match route::parse_unlisted(name) {
            Some((method, path)) => self.matching(&method, path),
            // What looks like a route but is none that can be protected is a mistake, not a name.
            None if name.contains(" /") || !lint::is_name(name) => return None,
            None => {
                Matched { operation: &self.unlisted, name: name.to_owned().into(), listed: false }
            }
        };
        (matched.listed || self.protect == Protect::Keyed).then_some(matched)
    }

    /// The operation of a record whose name says `name`, for those who look after records: one that
    /// the policy does not have any more has the default settings.
    pub fn of_record<'a>(&'a self, name: &str) -> Matched<'a> {
        let unlisted =
            || Matched { operation: &self.unlisted, name: name.to_owned().into(), listed: false };
        self.named(name).unwrap_or_else(unlisted)
    }

    /// The settings of every route that is not listed.
    pub fn unlisted(&self) -> &Operation {
        &self.unlisted
    }

    /// The listed operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Digest of everything that names records; see `naming.rs` for what that is. Processes of a
    /// cluster compare it.
    pub fn naming(&self) -> [u8; 32] {
        self.naming
    }

    /// What tenants may store; without those that may store anything.
    pub fn quotas(&self) -> HashMap<String, Quota> {
        let limited = self.tenants.iter().filter(|tenant| tenant.quota != Quota::default());
        limited.map(|tenant| (tenant.name.clone(), tenant.quota)).collect()
    }
}

impl Matched<'_> {
    /// The scope of this operation's keys for a credential of a tenant, and the values of the
    /// fields that [`Operation::scope_by`] lists.
    pub fn scope(&self, tenant: &str, credential: &str, sub_account: Vec<String>) -> Scope {
        let credential = match self.operation.isolate {
            Isolate::Tenant => None,
            Isolate::Credential => Some(credential.to_owned()),
        };
        Scope {
            tenant: tenant.to_owned(),
            sub_account,
            credential,
            operation: match self.operation.scope {
                KeyScope::Route => Some(self.name.clone().into_owned()),
                KeyScope::Account => None,
            },
        }
    }

    /// The operation's name where names of records leave it open, so that a record must say it.
    pub fn unnamed_operation(&self) -> Option<String> {
        match self.operation.scope {
            KeyScope::Route => None,
            KeyScope::Account => Some(self.name.clone().into_owned()),
        }
    }
}

impl Operation {
    /// The headers that say to which key and to which sub-account a request belongs.
    pub fn read_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let of_fields = self.scope_by.iter().filter_map(|field| match field {
            Field::Header(name) => Some(name),
            Field::Json(_) | Field::Query(_) | Field::Form(_) => None,
        });
        self.headers.iter().chain(of_fields)
    }

    /// The terms that a record of this operation is kept under.
    pub fn terms(&self) -> Terms {
        Terms {
            retention: self.retention,
            on_unknown: self.on_unknown,
            max_execution: self.max_execution,
        }
    }
}
