//! What a request must be before anything looks at it: HTTP that no two programs read differently.
//!
//! A proxy and the server behind it must agree on where a request ends and whom it is for. So what
//! stock HTTP libraries let through for the sake of old clients is refused here, on every listener.

use http::header::{AUTHORIZATION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, Version};

use crate::problem::{Code, Problem};

/// The longest request target in bytes, as most servers have it. A route that is not listed is
/// named by its path, so this bounds the names of records as well.
pub(crate) const TARGET_BYTES_MAX: usize = 8 * 1024;

/// The ports that need not be written.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// The methods that a refusal names.
const METHODS: &str = "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE";

/// Checks the head of a request.
///
/// # Errors
/// The 4xx or 501 problem to answer it with.
pub fn check(head: &Parts) -> Result<(), Problem> {
    if matches!(head.method, Method::CONNECT | Method::TRACE) {
        let detail = format!("{} is not supported", head.method);
        return Err(Problem::new(Code::MethodNotAllowed, detail).allow(METHODS));
    }
    spelled_as_known(&head.method)?;
    target(head)?;
    host(head)?;
    transfer_encoding(&head.headers)?;
    if head.headers.get_all(AUTHORIZATION).iter().nth(1).is_some() {
        return Err(Problem::invalid("more than one Authorization header"));
    }
    if head.headers.contains_key(UPGRADE) {
        let detail = "connections are not upgraded; for HTTP/2, begin with its preface";
        return Err(Problem::new(Code::UpgradeRefused, detail));
    }
    Ok(())
}

/// Methods are told apart by case, but some programs write them in capitals before they look:
/// `post` would be passed on as something else than a POST, and then be executed as one,
/// unprotected.
fn spelled_as_known(method: &Method) -> Result<(), Problem> {
    let capitals = method.as_str().to_ascii_uppercase();
    if capitals != method.as_str() {
        let detail = format!("the method {method} is not known; methods are written in capitals");
        return Err(Problem::new(Code::MethodNotAllowed, detail).allow(METHODS));
    }
    Ok(())
}

/// The target is a path, or an `http` URL with one; only OPTIONS may ask for `*`. A request of
/// HTTP/2 always names a scheme, and one that came through a proxy with TLS may name `https`.
fn target(head: &Parts) -> Result<(), Problem> {
    let (method, uri) = (&head.method, &head.uri);
    let secure = head.version == Version::HTTP_2 && uri.scheme() == Some(&Scheme::HTTPS);
    if uri.scheme().is_some_and(|scheme| *scheme != Scheme::HTTP) && !secure {
        return Err(Problem::invalid("the request's target has a scheme other than http"));
    }
    let path = uri.path();
    if path.len() + uri.query().map_or(0, str::len) > TARGET_BYTES_MAX {
        let detail = format!("the request's target is longer than {TARGET_BYTES_MAX} bytes");
        return Err(Problem::new(Code::TargetTooLong, detail));
    }
    let whole_server = *method == Method::OPTIONS && path == "*";
    // A target such as `example.com` is read as an authority without a path.
    let bare_authority = uri.authority().is_some() && uri.scheme().is_none();
    if bare_authority || !(path.starts_with('/') || whole_server) {
        return Err(Problem::invalid("the request's target is not a path"));
    }
    Ok(())
}

/// There is one Host, it is an authority, and an absolute target names the same one.
fn host(head: &Parts) -> Result<(), Problem> {
    let mut lines = head.headers.get_all(HOST).iter();
    let Some(line) = lines.next() else {
        // A request of HTTP/2 names its host in a field of its own.
        if head.version == Version::HTTP_2
            && let Some(authority) = head.uri.authority()
        {
            return plain(authority).then_some(()).ok_or_else(no_host);
        }
        // HTTP/1.0 knows no Host header; health checks of old load balancers speak it.
        if head.version == Version::HTTP_10 && head.uri.authority().is_none() {
            return Ok(());
        }
        return Err(Problem::invalid("no Host header"));
    };
    if lines.next().is_some() {
        return Err(Problem::invalid("more than one Host header"));
    }
    let host = line
        .to_str()
        .ok()
        .and_then(|text| text.parse::<Authority>().ok())
        .filter(plain)
        .ok_or_else(no_host)?;
    let default_port = match head.uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => HTTPS_PORT,
        _ => HTTP_PORT,
    };
    match head.uri.authority() {
        Some(named) if !same_authority(named, &host, default_port) => {
            Err(Problem::invalid("the request's target names another host than the Host header"))
        }
        _ => Ok(()),
    }
}

/// A host and perhaps a port, and nothing else. A comma is what a proxy puts between header lines
/// that it joins.
fn plain(authority: &Authority) -> bool {
    let text = authority.as_str();
    let whole = authority.host().len() == text.len() || authority.port_u16().is_some();
    whole && !text.contains(['@', ','])
}

fn no_host() -> Problem {
    Problem::invalid("the Host header is not a host")
}

/// Equal but for case and for a port that may be left out because it is the scheme's own.
fn same_authority(left: &Authority, right: &Authority, default_port: u16) -> bool {
    !left.as_str().contains('@')
        && left.host().eq_ignore_ascii_case(right.host())
        && left.port_u16().unwrap_or(default_port) == right.port_u16().unwrap_or(default_port)
}

/// The only transfer coding is `chunked`, once.
fn transfer_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(line) = lines.next() else { return Ok(()) };
    if lines.next().is_some() || !line.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Problem::invalid("Transfer-Encoding may only be chunked, once"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
