//! Which header lines of an answer are stored.

use thiserror::Error;

/// Header fields that every operation stores: what a body is, where the resource is, and which
/// state of it was seen.
const STORED: [&str; 8] = [
    "content-type",
    "content-language",
    "content-location",
    "content-encoding",
    "location",
    "link",
    "etag",
    "last-modified",
];

/// Fields about one connection or the framing of one message (RFC 9110, 6.4 and 7.6.1).
const CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields by which one exchange is found again in logs and traces.
const IDS: [&str; 17] = [
    "b3",
    "baggage",
    "cf-ray",
    "correlation-id",
    "request-id",
    "traceparent",
    "traceresponse",
    "tracestate",
    "uber-trace-id",
    "x-amz-request-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-request-id",
    "x-requestid",
    "x-trace-id",
];

/// Why a header field can never be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NeverStored {
    /// It is about one connection, or frames one message.
    #[error("it is about one connection")]
    Connection,
    /// It tells when one answer was made.
    #[error("it tells when one answer was made")]
    Date,
    /// It belongs to the one client that the first answer went to.
    #[error("it belongs to one client")]
    Cookie,
    /// It names one exchange, for logs and traces.
    #[error("it names one exchange")]
    Id,
    /// It tells how much a client may still ask for at that moment.
    #[error("it tells how much may be asked for at one moment")]
    RateLimit,
    /// Only the gateway may set it.
    #[error("only the gateway sets it")]
    Gateway,
}

/// Why a header field of a request can never be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NeverCompared {
    /// It is about one connection, or frames one message.
    #[error("it is about one connection")]
    Connection,
    /// It tells when one request was made.
    #[error("it tells when one request was made")]
    Date,
    /// It says who asks; that is settled before anything is compared.
    #[error("it says who asks, and an honest repeat may have another one")]
    Credential,
    /// It counts already, in a form of its own.
    #[error("what it says counts already")]
    Counted,
    /// It names one exchange, for logs and traces.
    #[error("it names one exchange")]
    Id,
    /// It tells the way that one request took.
    #[error("it tells the way that one request took")]
    Way,
    /// It brings a key, or only the gateway may set it.
    #[error("it brings a key, or is the gateway's own")]
    Gateway,
}

/// Checks that an operation may list this field of requests as one that is compared. Case does not
/// matter.
///
/// # Errors
/// When two honest requests that are the same may differ in it.
pub fn check_compared_header(name: &str) -> Result<(), NeverCompared> {
    let name = name.to_ascii_lowercase();
    Err(match name.as_str() {
        "date" | "age" => NeverCompared::Date,
        "authorization" | "cookie" => NeverCompared::Credential,
        "content-type" | "content-encoding" => NeverCompared::Counted,
        "via" | "forwarded" | "host" | "expect" => NeverCompared::Way,
        name if CONNECTION.contains(&name) => NeverCompared::Connection,
        name if IDS.contains(&name) => NeverCompared::Id,
        name if name.starts_with("x-b3-") || name.starts_with("x-datadog-") => NeverCompared::Id,
        name if name.starts_with("x-forwarded-") => NeverCompared::Way,
        name if name.starts_with("idempotency-") => NeverCompared::Gateway,
        _ => return Ok(()),
    })
}

/// Whether every operation stores this field. Case does not matter.
pub fn is_stored_header(name: &str) -> bool {
    STORED.iter().any(|stored| stored.eq_ignore_ascii_case(name))
}

/// Checks that an operation may list this field in `store_headers`. Case does not matter.
///
/// # Errors
/// When the field can never be stored.
pub fn check_stored_header(name: &str) -> Result<(), NeverStored> {
    let name = name.to_ascii_lowercase();
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let reason = match name.as_str() {
        "date" => NeverStored::Date,
        "set-cookie" | "set-cookie2" => NeverStored::Cookie,
        "ratelimit" | "x-ratelimit" => NeverStored::RateLimit,
        // An upstream may well answer with the key that it was given.
        "idempotency-key" => return Ok(()),
        name if CONNECTION.contains(&name) => NeverStored::Connection,
        name if IDS.contains(&name) => NeverStored::Id,
        _ if begins(&["x-b3-", "x-datadog-"]) => NeverStored::Id,
        _ if begins(&["ratelimit-", "x-ratelimit-", "x-rate-limit-"]) => NeverStored::RateLimit,
        _ if begins(&["idempotency-", "idempotent-"]) => NeverStored::Gateway,
        _ => return Ok(()),
    };
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_fields_are_stored_in_any_case() {
        for name in ["Content-Type", "LOCATION", "link", "ETag", "Last-Modified"] {
            assert!(is_stored_header(name), "{name}");
        }
        for name in ["", "x-order-version", "content-type2", "content", "cache-control", "vary"] {
            assert!(!is_stored_header(name), "{name}");
        }
    }

    #[test]
    fn fields_about_one_exchange_are_refused_with_the_reason() {
        let refused = [
            ("Date", NeverStored::Date),
            ("Set-Cookie", NeverStored::Cookie),
            ("Content-Length", NeverStored::Connection),
            ("TRANSFER-ENCODING", NeverStored::Connection),
            ("Connection", NeverStored::Connection),
            ("keep-alive", NeverStored::Connection),
            ("TE", NeverStored::Connection),
            ("Trailer", NeverStored::Connection),
            ("Upgrade", NeverStored::Connection),
            ("Proxy-Authenticate", NeverStored::Connection),
            ("RateLimit", NeverStored::RateLimit),
            ("RateLimit-Policy", NeverStored::RateLimit),
            ("X-RateLimit-Remaining", NeverStored::RateLimit),
            ("X-Request-Id", NeverStored::Id),
            ("Request-Id", NeverStored::Id),
            ("X-Correlation-ID", NeverStored::Id),
            ("traceparent", NeverStored::Id),
            ("X-B3-TraceId", NeverStored::Id),
            ("Idempotent-Replayed", NeverStored::Gateway),
            ("Idempotency-Expires", NeverStored::Gateway),
            ("Idempotency-Outcome", NeverStored::Gateway),
        ];
        for (name, reason) in refused {
            assert_eq!(check_stored_header(name), Err(reason), "{name}");
        }
    }

    #[test]
    fn fields_in_which_honest_repeats_differ_are_never_compared() {
        for (name, reason) in [
            ("Authorization", NeverCompared::Credential),
            ("cookie", NeverCompared::Credential),
            ("Connection", NeverCompared::Connection),
            ("Content-Length", NeverCompared::Connection),
            ("Transfer-Encoding", NeverCompared::Connection),
            ("Content-Type", NeverCompared::Counted),
            ("Content-Encoding", NeverCompared::Counted),
            ("Date", NeverCompared::Date),
            ("traceparent", NeverCompared::Id),
            ("X-B3-SpanId", NeverCompared::Id),
            ("X-Forwarded-For", NeverCompared::Way),
            ("Host", NeverCompared::Way),
            ("Idempotency-Key", NeverCompared::Gateway),
        ] {
            assert_eq!(check_compared_header(name), Err(reason), "{name}");
        }
        for name in ["Stripe-Account", "X-Api-Version", "Accept", "Prefer", "Content-MD5"] {
            assert_eq!(check_compared_header(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn any_other_field_may_be_listed() {
        let listed = ["X-Order-Version", "Retry-After", "Cache-Control", "Dated", "ratelimited"];
        for name in listed.into_iter().chain(["Idempotency-Key"]).chain(STORED) {
            assert_eq!(check_stored_header(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn no_field_is_stored_by_default_and_refused_in_a_list() {
        for name in CONNECTION.into_iter().chain(IDS) {
            assert!(check_stored_header(name).is_err() && !is_stored_header(name), "{name}");
        }
    }
}
