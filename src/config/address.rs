//! Addresses: where a process listens, and where its upstream is.

use std::net::SocketAddr;

use http::Uri;
use http::uri::Scheme;

use super::finding::Findings;
use super::section::{Located, Section};
use super::server_name;

/// An upstream: `http://HOST[:PORT]` or `https://HOST[:PORT]`.
///
/// # Errors
/// What is wrong with it, to be read after the setting's name.
pub fn parse_upstream(text: &str) -> Result<Uri, &'static str> {
    const FORM: &str = "must be http://HOST, https://HOST or either with :PORT";
    let uri: Uri = text.parse().map_err(|_| FORM)?;
    let authority = uri.authority().ok_or(FORM)?;
    let whole = uri.path() == "/" && uri.query().is_none() && !authority.as_str().contains('@');
    let secure = uri.scheme() == Some(&Scheme::HTTPS);
    if !(secure || uri.scheme() == Some(&Scheme::HTTP)) || !whole {
        return Err(FORM);
    }
    // A port that is no number of sixteen bits reads as none, and none would be the scheme's own.
    let has_port = authority.as_str().len() > authority.host().len();
    if has_port && authority.port_u16().is_none_or(|port| port == 0) {
        return Err("has a port that is not 1 to 65535");
    }
    if secure && server_name(&uri).is_none() {
        return Err("has a host that no certificate can be for");
    }
    Ok(uri)
}

pub(super) fn address(section: &Section<'_>, name: &'static str) -> Option<Located<SocketAddr>> {
    let text = section.text(name)?;
    match text.value.parse::<SocketAddr>() {
        Ok(addr) => Some(text.map(|_| addr)),
        Err(_) => {
            section.wrong_value(name, "must be an address and a port, such as \"127.0.0.1:7101\"");
            None
        }
    }
}

/// Refuses two listeners on one address. Port 0 is a free one each time.
pub(super) fn distinct(findings: &Findings<'_>, listeners: &[Option<&Located<SocketAddr>>]) {
    let listeners: Vec<_> = listeners.iter().flatten().collect();
    for (index, listener) in listeners.iter().enumerate() {
        let taken = |earlier: &&&&Located<SocketAddr>| {
            let (left, right) = (listener.value, earlier.value);
            let same_ip = left.ip() == right.ip()
                || left.ip().is_unspecified()
                || right.ip().is_unspecified();
            left.port() != 0 && left.port() == right.port() && same_ip
        };
        if listeners[..index].iter().any(|earlier| taken(&earlier)) {
            let message = format!("{} is another listener's address as well", listener.value);
            findings.error(&listener.at, "address-taken-twice", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_an_http_authority_with_a_real_port() {
        for fine in [
            "http://a",
            "http://a:80",
            "http://127.0.0.1:65535",
            "http://[::1]:8080/",
            "https://a",
            "https://[::1]",
        ] {
            assert!(parse_upstream(fine).is_ok(), "{fine}");
        }
        for wrong in [
            "http://a:0",
            "http://a:65536",
            "http://a:99999",
            "http://a:",
            "http://a:x",
            "a:80",
            "http://u@a",
            "http://a/x",
            "http://a?x",
            "https://a..b",
            "ftp://a",
            "http://",
            "",
        ] {
            assert!(parse_upstream(wrong).is_err(), "{wrong}");
        }
    }
}
