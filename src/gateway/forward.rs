//! Which header lines go on, in either direction.
//!
//! The upstream gets the client's request as it came, `Host` included, so that nothing changes in
//! it when the gateway is put in front: signatures over the host, checks of `Origin` and absolute
//! `Location`s keep working. Left out are fields about one connection (RFC 9110, 7.6.1), those that
//! `Connection` names, and those that only the gateway may set.

use std::net::IpAddr;

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, HOST,
    TRANSFER_ENCODING, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use protocol::derived::derived_key;
use protocol::{Fence, RecordName};

use crate::config::AuthSettings;

use crate::problem::PROBLEM;
use crate::replay::{EXPIRES, REPLAYED, STALE};

/// The number of this grant: an upstream that remembers the largest can refuse a late execution.
pub(crate) const FENCE: HeaderName = HeaderName::from_static("idempotency-fence");

/// 1 for the first execution of a key, 2 for the first one after a takeover, …
pub(crate) const ATTEMPT: HeaderName = HeaderName::from_static("idempotency-attempt");

/// The key: the client's, or a derived one.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The upstream's own word on what its answer means.
pub(crate) const OUTCOME: HeaderName = HeaderName::from_static("idempotency-outcome");

/// Says that a key had no effect.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("idempotency-status");

/// The value of [`STATUS`].
pub(crate) const IGNORED: HeaderValue = HeaderValue::from_static("ignored");

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields about one connection, whether `Connection` names them or not. The two of proxy
/// authentication are about the proxy before us, and 407 is its status.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    TRANSFER_ENCODING,
    http::header::TE,
    http::header::TRAILER,
    http::header::UPGRADE,
    http::header::PROXY_AUTHENTICATE,
    http::header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// What the gateway says of itself in `Via`.
const VIA_US: &str = "1.1 oncegate";

/// Who sent a request, and how the upstream is told.
#[derive(Clone, Debug)]
pub(crate) struct Caller<'a> {
    /// The address at the other end of the client's connection.
    pub(crate) address: IpAddr,
    /// The tenant, where the request is protected.
    pub(crate) tenant: Option<&'a str>,
    /// The header that tells the upstream the tenant. A client's own is removed in any case.
    pub(crate) tenant_header: Option<&'a HeaderName>,
    /// Whether the client's `Authorization` is forwarded.
    pub(crate) authorization: bool,
    /// The headers of a trusted gateway, which are meant for us alone.
    pub(crate) auth: &'a AuthSettings,
    /// What the operation's keys and sub-accounts are read from: the upstream must not read them
    /// from other fields than we do.
    pub(crate) read: Vec<&'a HeaderName>,
}

/// What goes upstream with a protected request only.
#[derive(Clone, Debug)]
pub(crate) struct Protected {
    /// The key.
    pub(crate) key: ForwardedKey,
    /// The attempt that the request is.
    pub(crate) attempt: Attempt,
}

/// The key that the upstream gets.
#[derive(Clone, Debug)]
pub(crate) enum ForwardedKey {
    /// The client's, as it wrote it.
    Raw(HeaderValue),
    /// One for this generation of the record, in the place of the client's wherever that stands.
    Derived {
        /// The record.
        name: RecordName,
        /// The headers in which the client may have sent its key.
        headers: Vec<HeaderName>,
    },
}

/// One attempt at an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The grant's fence.
    pub(crate) fence: Fence,
    /// The first fence of the generation.
    pub(crate) generation: Fence,
    /// Its number within the generation, from 1.
    pub(crate) attempt_no: u32,
}

/// The header lines of a client's request as they go upstream, for both kinds of requests.
pub(crate) fn request_headers(client: &HeaderMap, caller: &Caller<'_>) -> HeaderMap {
    let mut headers = client.clone();
    drop_connection_fields(&mut headers);
    for gateways_own in [&FENCE, &ATTEMPT, &EXPECT] {
        headers.remove(gateways_own);
    }
    if !caller.authorization {
        headers.remove(AUTHORIZATION);
    }
    let theirs = caller.tenant_header.into_iter().chain(caller.auth.headers());
    drop_twins(&mut headers, theirs.chain(caller.read.iter().copied()));
    for meant_for_us in caller.auth.headers() {
        headers.remove(meant_for_us);
    }
    if let Some(name) = caller.tenant_header {
        headers.remove(name);
        if let Some(value) =
            caller.tenant.and_then(|it| HeaderValue::from_bytes(it.as_bytes()).ok())
        {
            headers.insert(name, value);
        }
    }
    tell_the_way(&mut headers, caller.address);
    headers
}

/// Adds to `headers` what a protected request of `body_bytes` bytes says besides.
pub(crate) fn protect(headers: &mut HeaderMap, protected: &Protected, body_bytes: usize) {
    let attempt = protected.attempt;
    match &protected.key {
        ForwardedKey::Raw(key) => {
            headers.insert(KEY, key.clone());
        }
        ForwardedKey::Derived { name, headers: brought_in } => {
            let key = derived_key(name, attempt.generation);
            let key = HeaderValue::from_str(&key).expect("a derived key is hexadecimal digits");
            for name in brought_in.iter().filter(|name| **name != KEY) {
                if headers.contains_key(name) {
                    headers.insert(name, key.clone());
                }
            }
            headers.insert(KEY, key);
        }
    }
    headers.insert(FENCE, HeaderValue::from(attempt.fence.as_number()));
    headers.insert(ATTEMPT, HeaderValue::from(attempt.attempt_no));
    // An encoded answer could only be replayed to clients that accept its encoding.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body_bytes));
}

/// Makes of an upstream's header lines those that the client sees.
pub(crate) fn answer_headers(mut headers: HeaderMap) -> HeaderMap {
    drop_connection_fields(&mut headers);
    for spoken_by_the_gateway in [&REPLAYED, &OUTCOME, &STATUS, &EXPIRES, &STALE, &PROBLEM] {
        headers.remove(spoken_by_the_gateway);
    }
    headers
}

/// Whether an upstream's answer is in a transfer coding besides `chunked`. None was asked for
/// (there is no `TE`), and what is passed on or kept would be the coded bytes, with nothing to say
/// so.
pub(crate) fn is_coded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(TRANSFER_ENCODING).iter();
    let mut codings = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    codings.any(|coding| !coding.trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// The names that the `Connection` lines of `headers` list, in lower case.
pub(crate) fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> + '_ {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .filter_map(|option| HeaderName::from_bytes(option.trim_ascii()).ok())
}

fn drop_connection_fields(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_options(headers).collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Removes fields whose names differ from the gateway's own, or from those it reads, only by `_` in
/// the place of `-`: many servers hand both to a program under one name, and a client must neither
/// speak for the gateway nor tell the upstream something else.
fn drop_twins<'a>(headers: &mut HeaderMap, more: impl Iterator<Item = &'a HeaderName>) {
    let own = [KEY, FENCE, ATTEMPT, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO];
    let own: Vec<HeaderName> = own.into_iter().chain(more.cloned()).collect();
    let folded = |name: &HeaderName| name.as_str().replace('_', "-");
    let is_twin = |name: &&HeaderName| {
        name.as_str().contains('_')
            && own.iter().any(|own| folded(own) == folded(name) && own != name)
    };
    let twins: Vec<HeaderName> = headers.keys().filter(is_twin).cloned().collect();
    for twin in twins {
        headers.remove(twin);
    }
}

/// Tells the upstream who asked, of whom and how, in the old words and in those of RFC 7239. What
/// proxies before us have said stays in front.
fn tell_the_way(headers: &mut HeaderMap, address: IpAddr) {
    append(headers, FORWARDED_FOR, &address.to_string());
    let host = headers.get(HOST).cloned();
    let node = match address {
        IpAddr::V4(address) => format!("for={address}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\""),
    };
    let mut forwarded = format!("{node};proto=http");
    let quotable = |host: &&str| !host.contains(['"', '\\']);
    if let Some(host) = host.as_ref().and_then(|host| host.to_str().ok()).filter(quotable) {
        forwarded.push_str(&format!(";host=\"{host}\""));
    }
    append(headers, FORWARDED, &forwarded);
    append(headers, VIA, VIA_US);
    // A proxy before us knows better what the client itself used.
    if let Some(host) = host.filter(|_| !headers.contains_key(FORWARDED_HOST)) {
        headers.insert(FORWARDED_HOST, host);
    }
    if !headers.contains_key(FORWARDED_PROTO) {
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
}

/// Adds an element to a list field. The list becomes one line, since some readers look at the first
/// line only.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let mut list = Vec::new();
    for line in headers.get_all(&name) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(element.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&list) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
