//! The pages under [`PAGES`] that explain the codes of problems.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method};

use super::code::Code;

/// Where the pages stand, on every listener.
pub const PAGES: &str = "/problems/";

/// The page under `path`; `None` when the request is about something else. Nobody needs a
/// credential to read it.
pub fn page(method: &Method, path: &str) -> Option<Response> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let name = path.strip_prefix(PAGES)?;
    let mut text = String::new();
    for code in Code::ALL.into_iter().filter(|code| code.name() == name) {
        if text.is_empty() {
            text.push_str(name);
            text.push('\n');
        }
        text.push_str(&paragraph(code));
    }
    if text.is_empty() {
        return None;
    }
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Some(response)
}

/// What one code says, with its status and what a client may do.
fn paragraph(code: Code) -> String {
    format!(
        "\n{status} {title}\n{explanation}\nThe same request may be sent again: {again}. \
         The upstream may have acted: {executed}.\n",
        status = code.status().as_u16(),
        title = code.title(),
        explanation = code.explanation(),
        again = if code.retryable() { "yes" } else { "no" },
        executed = code.executed().as_str(),
    )
}
