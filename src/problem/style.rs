//! How the clients of an operation are told of problems.
//!
//! What happened, and what a client may do about it, is the same in every style. A client that was
//! written for a payment provider finds that provider's error object and status; the header
//! [`PROBLEM`] says in all of them what only problem+json has a place for.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use axum::body::Body;

use super::{Code, MEDIA_TYPE, Problem, body};

/// Says what a problem is, whatever its body looks like: an RFC 9651 Item, the code with the
/// parameters `retryable` and `executed`. An answer of the upstream never has it.
pub const PROBLEM: HeaderName = HeaderName::from_static("idempotency-problem");

/// Tells Stripe's libraries whether to send the request again: by themselves they repeat after
/// every 409 and 5xx.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");

/// Tells clients of Adyen that the same request may be sent again with the same key.
const TRANSIENT_ERROR: HeaderName = HeaderName::from_static("transient-error");

/// How the clients of an operation are told of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The error object.
    pub errors: ErrorBody,
    /// The status that says that a key belongs to another request, or to another operation: 422
    /// or 400.
    pub mismatch_status: StatusCode,
}

/// An error object, as its provider's public documentation has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBody {
    /// `application/problem+json`, RFC 9457.
    Problem,
    /// Stripe's: `{"error": {"type", "code", "message", …}}`.
    Stripe,
    /// Adyen's: `{"status", "errorCode", "message", "errorType", …}`.
    Adyen,
    /// PayPal's: `{"name", "message", "debug_id", "details": […], "links": […]}`.
    Paypal,
}

impl Style {
    /// That of everything that no operation is known for.
    pub const DEFAULT: Self =
        Self { errors: ErrorBody::Problem, mismatch_status: StatusCode::UNPROCESSABLE_ENTITY };

    /// The status that a problem has in this style.
    pub fn status(&self, problem: &Problem) -> StatusCode {
        match problem.code {
            Code::KeyReused | Code::OperationMismatch => self.mismatch_status,
            _ => problem.status,
        }
    }

    /// Answers with a problem, which is thereby counted and logged.
    pub fn render(&self, problem: Problem) -> Response<Body> {
        let status = self.status(&problem);
        let instance = problem.told();
        let body = body::write(&problem, self.errors, status, &instance);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let said = item(&problem);
        let (code, retryable) = (problem.code, problem.retryable);
        let headers = response.headers_mut();
        *headers = *problem.headers;
        headers.insert(CONTENT_TYPE, self.errors.media_type());
        headers.insert(PROBLEM, said);
        self.errors.advise(headers, code, retryable);
        response
    }
}

impl ErrorBody {
    /// Every error object.
    pub const ALL: [Self; 4] = [Self::Problem, Self::Stripe, Self::Adyen, Self::Paypal];

    /// The error object as a policy spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem+json",
            Self::Stripe => "stripe",
            Self::Adyen => "adyen",
            Self::Paypal => "paypal",
        }
    }

    /// Its media type.
    pub fn media_type(self) -> HeaderValue {
        match self {
            Self::Problem => MEDIA_TYPE,
            Self::Stripe | Self::Adyen | Self::Paypal => {
                HeaderValue::from_static("application/json")
            }
        }
    }

    /// Says in the provider's own header what a client may do.
    fn advise(self, headers: &mut HeaderMap, code: Code, retryable: bool) {
        match self {
            Self::Stripe if !retryable => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            // Too many requests are no matter of the key: a client slows down first.
            Self::Adyen if retryable && code.status() != StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(TRANSIENT_ERROR, HeaderValue::from_static("true"));
            }
            Self::Problem | Self::Stripe | Self::Adyen | Self::Paypal => {}
        }
    }
}

/// The value of [`PROBLEM`].
fn item(problem: &Problem) -> HeaderValue {
    let (code, executed) = (problem.code.name(), problem.executed.as_str());
    let retryable = u8::from(problem.retryable);
    let item = format!("{code}; retryable=?{retryable}; executed={executed}");
    HeaderValue::from_str(&item).expect("codes are lower-case words")
}
