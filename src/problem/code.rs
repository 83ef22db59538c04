//! The codes of problems: one table of what each means.

use http::StatusCode;

/// Whether the upstream may have acted on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// It did not, and this request will not make it.
    No,
    /// It did.
    Yes,
    /// Nobody can tell here.
    Unknown,
}

impl Executed {
    /// As it stands in a problem.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
            Self::Unknown => "unknown",
        }
    }
}

/// What happened. Several codes have one name: they are the same to a client's program, but differ
/// in status or in what it may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The operation needs a key and the request has none.
    KeyMissing,
    /// The key cannot be read.
    KeyMalformed,
    /// The key is longer than the operation's limit.
    KeyTooLong,
    /// The request cannot be read.
    InvalidRequest,
    /// No credential, or one that is not known.
    Unauthenticated,
    /// The credential may not do this.
    Forbidden,
    /// There is nothing here.
    NotFound,
    /// The resource does not have this method.
    MethodNotAllowed,
    /// The body did not come in time.
    BodyTimeout,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The head is larger than the limit.
    HeadTooLarge,
    /// The request's target is longer than the limit.
    TargetTooLong,
    /// Another request with this key is being executed.
    KeyInProgress,
    /// Nobody can tell whether the request was executed.
    OutcomeIndeterminate,
    /// The request was executed, but its response was not kept.
    ResponseNotReplayable,
    /// The request was executed; its outcome is to be looked up where it is.
    ReplayRedirect,
    /// The fence is not the current one.
    StaleFence,
    /// The record is in another state than the call needs.
    StateConflict,
    /// The key was used before with another request.
    KeyReused,
    /// The key was used before for another operation.
    OperationMismatch,
    /// The tenant sends more requests than it may.
    RateLimited,
    /// The tenant has no room left for new keys.
    QuotaExceeded,
    /// The connection should become something other than HTTP.
    UpgradeRefused,
    /// Nothing could be sent to the upstream.
    UpstreamUnreachable,
    /// The upstream broke off after it had been sent something.
    OutcomeUnknownReset,
    /// The upstream did not answer in time, or its answer could not be made durable.
    OutcomeUnknown,
    /// The upstream has not answered within the client's time; the execution goes on.
    OutcomePending,
    /// The key's shard cannot decide now.
    ShardUnavailable,
    /// The policy of the process that was asked is not the cluster's.
    ConfigMismatch,
    /// A defect of oncegate; the last resort.
    Internal,
}

/// What a code means: name, status, whether to send the same request again, whether the upstream
/// may have acted, title.
type Row = (&'static str, u16, bool, Executed, &'static str);

const ANOTHER_REQUEST: &str = "This key belongs to an earlier request that was different; where \
    there is a list \"differs\", in these members of its body. Use a new key for a new request. \
    This request was not executed.";
/// The explanation of [`Code::KeyInProgress`].
const IN_PROGRESS: &str = "A request with this key is being executed now. Send the same request \
    again after the time in Retry-After: it gets the first one's answer.";

/// The explanation of [`Code::RateLimited`].
const TOO_MANY_REQUESTS: &str = "This tenant sends more requests than it may. Nothing was executed \
    or stored: send the same request again after the time in Retry-After.";

/// The explanation of [`Code::QuotaExceeded`].
const NO_ROOM: &str = "This tenant has as many keys, or as large answers, as it may have, so this \
    new key was not taken. Nothing was executed. Keys that are known go on as ever. There is room \
    again when older ones reach the end of their retention.";

/// The explanation of [`Code::ConfigMismatch`].
const ANOTHER_POLICY: &str = "The process that was asked has another policy than its cluster, and \
    would look for the key under another name. Send the request again: another process may answer. \
    An operator has to give all nodes the same policy.";

/// The explanation of [`Code::OperationMismatch`].
const ANOTHER_OPERATION: &str = "This key belongs to an earlier request to another endpoint. Use a \
    new key for a new request. This request was not executed.";

/// The same request may be sent again.
const AGAIN: bool = true;

/// The same request gets the same answer, until somebody changes something.
const STOP: bool = false;

impl Code {
    /// Every code, in the order in which the documentation lists them.
    pub const ALL: [Self; 30] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::KeyTooLong,
        Self::InvalidRequest,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::BodyTimeout,
        Self::BodyTooLarge,
        Self::HeadTooLarge,
        Self::TargetTooLong,
        Self::KeyInProgress,
        Self::OutcomeIndeterminate,
        Self::ResponseNotReplayable,
        Self::ReplayRedirect,
        Self::StaleFence,
        Self::StateConflict,
        Self::KeyReused,
        Self::OperationMismatch,
        Self::RateLimited,
        Self::QuotaExceeded,
        Self::UpgradeRefused,
        Self::UpstreamUnreachable,
        Self::OutcomeUnknownReset,
        Self::OutcomeUnknown,
        Self::OutcomePending,
        Self::ShardUnavailable,
        Self::ConfigMismatch,
        Self::Internal,
    ];

    /// The table: the only place that gives an error a status.
    const fn row(self) -> Row {
        use Executed::{No, Unknown, Yes};
        match self {
            Self::KeyMissing => ("key-missing", 400, STOP, No, "Key missing"),
            Self::KeyMalformed => ("key-malformed", 400, STOP, No, "Key malformed"),
            Self::KeyTooLong => ("key-too-long", 400, STOP, No, "Key too long"),
            Self::InvalidRequest => ("invalid-request", 400, STOP, No, "Invalid request"),
            Self::Unauthenticated => ("unauthenticated", 401, STOP, No, "Not authenticated"),
            Self::Forbidden => ("forbidden", 403, STOP, No, "Not allowed"),
            Self::NotFound => ("not-found", 404, STOP, No, "Not found"),
            Self::MethodNotAllowed => ("invalid-request", 405, STOP, No, "Method not allowed"),
            Self::BodyTimeout => ("invalid-request", 408, AGAIN, No, "Body not in time"),
            Self::BodyTooLarge => ("body-too-large", 413, STOP, No, "Body too large"),
            Self::TargetTooLong => ("invalid-request", 414, STOP, No, "Target too long"),
            Self::HeadTooLarge => ("invalid-request", 431, STOP, No, "Header fields too large"),
            Self::KeyInProgress => ("key-in-progress", 409, AGAIN, Unknown, "In progress"),
            Self::OutcomeIndeterminate => {
                ("outcome-indeterminate", 409, STOP, Unknown, "Outcome indeterminate")
            }
            Self::ResponseNotReplayable => {
                ("response-not-replayable", 409, STOP, Yes, "Response not replayable")
            }
            Self::ReplayRedirect => ("replay-redirect", 409, STOP, Yes, "See the resource"),
            Self::StaleFence => ("stale-fence", 409, STOP, Unknown, "Fence is not current"),
            Self::StateConflict => ("invalid-request", 409, STOP, Unknown, "Not in this state"),
            Self::KeyReused => ("key-reused", 422, STOP, No, "Key used with another request"),
            Self::RateLimited => ("rate-limited", 429, AGAIN, No, "Too many requests"),
            Self::QuotaExceeded => ("quota-exceeded", 429, AGAIN, No, "Quota exceeded"),
            Self::OperationMismatch => {
                ("operation-mismatch", 422, STOP, No, "Key used for another operation")
            }
            Self::UpgradeRefused => ("invalid-request", 501, STOP, No, "Upgrade not supported"),
            Self::UpstreamUnreachable => {
                ("upstream-unreachable", 502, AGAIN, No, "Upstream unreachable")
            }
            Self::OutcomeUnknownReset => {
                ("outcome-unknown", 502, AGAIN, Unknown, "Outcome unknown")
            }
            Self::OutcomeUnknown => ("outcome-unknown", 504, AGAIN, Unknown, "Outcome unknown"),
            Self::OutcomePending => ("outcome-pending", 504, AGAIN, Unknown, "Outcome pending"),
            Self::ShardUnavailable => ("shard-unavailable", 503, AGAIN, No, "Not decidable now"),
            Self::ConfigMismatch => {
                ("config-mismatch", 503, AGAIN, No, "Policy is not the cluster's")
            }
            Self::Internal => ("internal", 500, STOP, Unknown, "Defect in oncegate"),
        }
    }

    /// The code as it stands in a problem.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The status that it is answered with.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().1).expect("the table holds statuses of three digits")
    }

    /// Whether the same request may be sent again unchanged.
    pub const fn retryable(self) -> bool {
        self.row().2
    }

    /// Whether the upstream may have acted.
    pub const fn executed(self) -> Executed {
        self.row().3
    }

    /// What it is, in a few words.
    pub const fn title(self) -> &'static str {
        self.row().4
    }

    /// What it means and what to do about it: the text of the code's page.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::KeyMissing => "This operation executes only requests that bring a key.",
            Self::KeyMalformed => {
                "A key is visible ASCII without a comma, or a quoted string, in one header line."
            }
            Self::KeyTooLong => "The key has more bytes than the operation allows.",
            Self::InvalidRequest => "The request cannot be understood as it was sent.",
            Self::Unauthenticated => "Send one Authorization: Bearer with a known key or token.",
            Self::Forbidden => "The credential is valid, but may not be used for this.",
            Self::NotFound => "There is nothing under this path, or no record of this key.",
            Self::MethodNotAllowed => "The Allow header names the methods that this path has.",
            Self::BodyTimeout => "The request's body did not arrive in time. Nothing was executed.",
            Self::BodyTooLarge => "The body is larger than the configured limit.",
            Self::TargetTooLong => "The request's target is longer than the limit.",
            Self::HeadTooLarge => "The request's header fields are too many or too large.",
            Self::KeyInProgress => IN_PROGRESS,
            Self::OutcomeIndeterminate => {
                "The request may or may not have been executed, and nobody can tell from here. \
                 It will not run again by itself: an operator has to settle it first."
            }
            Self::ResponseNotReplayable => {
                "The request was executed, but its response was too large to be kept. Look the \
                 result up, where there is a Location by that."
            }
            Self::ReplayRedirect => {
                "The request was executed. Get the resource under Location to see its present \
                 state: repeats of this operation are not answered with the first response."
            }
            Self::StaleFence => {
                "Another attempt holds this key by now, or its outcome is settled. Whoever is told \
                 this must not go on working under its old grant."
            }
            Self::StateConflict => "The record's present state does not allow this call.",
            Self::KeyReused => ANOTHER_REQUEST,
            Self::RateLimited => TOO_MANY_REQUESTS,
            Self::QuotaExceeded => NO_ROOM,
            Self::OperationMismatch => ANOTHER_OPERATION,
            Self::UpgradeRefused => "Connections cannot be upgraded to another protocol here.",
            Self::UpstreamUnreachable => {
                "Nothing was sent to the upstream, so nothing was executed. Send the same request \
                 again."
            }
            Self::OutcomeUnknown | Self::OutcomeUnknownReset => {
                "The request was sent to the upstream, but no whole answer can be relied on yet. \
                 Send the same request again with the same key: it gets the outcome once it is \
                 known, and never runs twice."
            }
            Self::OutcomePending => {
                "The request is still being executed. Send the same request again with the same \
                 key to get its answer."
            }
            Self::ShardUnavailable => "The key cannot be decided at the moment: send it again.",
            Self::ConfigMismatch => ANOTHER_POLICY,
            Self::Internal => {
                "A defect of oncegate. Please report it with the problem's instance. With the same \
                 key the request may be sent again; it never runs twice."
            }
        }
    }
}
