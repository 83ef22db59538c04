//! The terms over HTTP.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sha2::{Digest, Sha256};

use super::{Limits, Terms};
use crate::config::Policy;

/// Where the terms stand, on every listener.
pub const PATH: &str = "/.well-known/idempotency";

/// Caches may keep the terms for five minutes: an operator who changes them tells people first.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// What a process publishes. The document is made once for every policy.
#[derive(Debug)]
pub struct Published {
    limits: Option<Limits>,
    made: Mutex<Option<Made>>,
}

#[derive(Clone, Debug)]
struct Made {
    policy: Arc<Policy>,
    document: Bytes,
    tag: HeaderValue,
}

impl Published {
    /// The terms of a process; `limits`: those of its gateway, where it is one.
    pub fn new(limits: Option<Limits>) -> Self {
        Self { limits, made: Mutex::new(None) }
    }

    /// The answer to a request for the terms by the present policy; `None` when the request is
    /// about something else.
    pub fn answer(
        &self,
        policy: &Arc<Policy>,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Response> {
        if path != PATH || !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        let Made { document, tag, .. } = self.made(policy);
        let fresh = headers.get_all(IF_NONE_MATCH).iter().any(|line| names(line, &tag));
        let body = if fresh { Body::empty() } else { Body::from(document) };
        let mut response = Response::new(body);
        let answer = response.headers_mut();
        answer.insert(CACHE_CONTROL, CACHED);
        answer.insert(ETAG, tag);
        if fresh {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            answer.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Some(response)
    }

    fn made(&self, policy: &Arc<Policy>) -> Made {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some(made) if Arc::ptr_eq(&made.policy, policy) => made.clone(),
            _ => made.insert(Made::by(policy, self.limits)).clone(),
        }
    }
}

impl Made {
    fn by(policy: &Arc<Policy>, limits: Option<Limits>) -> Self {
        let document = format!("{:#}\n", Terms::of(policy, limits).to_json());
        let digest = URL_SAFE_NO_PAD.encode(&Sha256::digest(&document)[..16]);
        let tag = HeaderValue::from_str(&format!("\"{digest}\"")).expect("base64 is visible ASCII");
        Self { policy: Arc::clone(policy), document: document.into(), tag }
    }
}

/// Whether a line of `If-None-Match` names this entity tag.
fn names(line: &HeaderValue, tag: &HeaderValue) -> bool {
    let tags = line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tags.map(|it| it.strip_prefix(b"W/").unwrap_or(it)).any(|it| it == b"*" || it == tag.as_bytes())
}
