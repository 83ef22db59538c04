//! Reads `cors`: the web pages whose scripts may call the gateway.

use http::uri::Scheme;
use http::{HeaderValue, Uri};

use super::section::{Located, Section};

/// The most origins: every preflight is compared with all of them.
const ORIGINS_MAX: usize = 64;

/// Scripts of which origins may call the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// The origins as browsers send them.
    pub origins: Vec<HeaderValue>,
}

/// The setting; `Some(None)` where it is absent.
pub(super) fn read(section: &Section<'_>) -> Option<Option<Cors>> {
    let Some(table) = section.table("cors") else {
        return (!section.has("cors")).then_some(None);
    };
    let texts = table.require("origins", table.texts("origins"));
    table.finish();
    let texts = texts?;
    if texts.is_empty() || texts.len() > ORIGINS_MAX {
        table.wrong_value("origins", &format!("must name 1 to {ORIGINS_MAX} origins"));
        return None;
    }
    let origins: Vec<_> = texts.iter().filter_map(|text| origin(&table, text)).collect();
    (origins.len() == texts.len()).then_some(Some(Cors { origins }))
}

/// An origin in the one spelling that browsers send; any other would never match.
fn origin(section: &Section<'_>, text: &Located<&str>) -> Option<HeaderValue> {
    let uri = text.value.parse::<Uri>().ok();
    let found = uri.filter(|uri| is_origin(uri, text.value));
    if found.is_none() {
        let message = format!(
            "\"{}\" is not an origin as browsers send it, such as \"https://shop.example\"",
            text.value
        );
        section.findings.error(&text.at, "wrong-value", message);
    }
    found.and_then(|_| HeaderValue::from_str(text.value).ok())
}

fn is_origin(uri: &Uri, text: &str) -> bool {
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else { return false };
    let own_port = match () {
        () if *scheme == Scheme::HTTPS => 443,
        () if *scheme == Scheme::HTTP => 80,
        () => return false,
    };
    let is_plain = format!("{scheme}://{authority}") == text && !authority.as_str().contains('@');
    is_plain
        && authority.port_u16() != Some(own_port)
        && (authority.port_u16().is_some() || authority.as_str() == authority.host())
        && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}
