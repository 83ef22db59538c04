//! What the gateway counts. Executed and replayed requests are separate series, so that a graph of
//! the upstream's work is never made of answers that cost it nothing. Refusals are counted where
//! every problem is, by code.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use tokio::sync::OwnedSemaphorePermit;

/// Protected requests whose own execution was stored and answered.
pub const EXECUTED: &str = "oncegate_gateway_executed_total";

/// Protected requests that were answered with a stored response.
pub const REPLAYED: &str = "oncegate_gateway_replayed_total";

/// Protected requests whose upstream declared that it had not executed them: passed through, not
/// stored.
pub const RELEASED: &str = "oncegate_gateway_released_total";

/// Requests that went through unprotected.
pub const PASSED: &str = "oncegate_gateway_passed_total";

/// Executions under way, from the claim until their outcome is recorded.
pub const IN_FLIGHT: &str = "oncegate_gateway_executions_in_flight";

/// Seconds from the permission to send a protected request until its answer was there
/// (`result="answered"`), or lost (`"broken"`), or it was clear that nothing was sent (`"unsent"`).
pub const UPSTREAM_SECONDS: &str = "oncegate_gateway_upstream_seconds";

/// Seconds that one copy of a claim took to be decided, or not: `answered="yes"` or
/// `"no"`.
pub const CLAIM_SECONDS: &str = "oncegate_gateway_claim_seconds";

/// Requests of operations in shadow mode, by `operation` and by the `verdict` that would have been
/// given: `new`, `replay`, the code of a problem, `keyless`, `keyless-twin`; or `unobserved`.
pub const SHADOW: &str = "oncegate_gateway_shadow_total";

/// Keys that shadow mode no longer knows, since it has seen too many others: repeats of them count
/// as new.
pub const SHADOW_FORGOTTEN: &str = "oncegate_gateway_shadow_forgotten_total";

/// Seconds within which 99 of 100 executions of an `operation` were over lately.
pub const EXECUTION_P99: &str = "oncegate_gateway_execution_p99_seconds";

/// The operation's `max_execution`, which should be 1.5 times that.
pub const EXECUTION_MAX: &str = "oncegate_gateway_execution_max_seconds";

/// Claims that were answered from this process's own replica, without the log.
pub const ANSWERED_HERE: &str = "oncegate_gateway_answered_here_total";

/// Tells the installed recorder what each metric means. To be called once it is installed.
pub fn describe() {
    describe_counter!(EXECUTED, "Protected requests executed and stored by this gateway");
    describe_counter!(REPLAYED, "Protected requests answered with a stored response");
    describe_counter!(RELEASED, "Protected requests that the upstream declared not executed");
    describe_counter!(PASSED, "Requests that went through unprotected");
    describe_counter!(ANSWERED_HERE, "Claims answered from this node's own replica");
    describe_counter!(SHADOW, "Requests in shadow mode, by the verdict they would have got");
    describe_counter!(SHADOW_FORGOTTEN, "Keys that shadow mode had no more room for");
    describe_gauge!(EXECUTION_P99, "Time within which 99 of 100 executions were over lately");
    describe_gauge!(EXECUTION_MAX, "Time that an execution may take");
    describe_gauge!(IN_FLIGHT, "Executions under way");
    describe_histogram!(
        UPSTREAM_SECONDS,
        Unit::Seconds,
        "Time that the upstream took for protected requests, by what became of them"
    );
    describe_histogram!(
        CLAIM_SECONDS,
        Unit::Seconds,
        "Time that copies of claims took, by whether they were answered"
    );
}

pub(crate) fn executed() {
    counter!(EXECUTED).increment(1);
}

pub(crate) fn answered_here() {
    counter!(ANSWERED_HERE).increment(1);
}

pub(crate) fn replayed() {
    counter!(REPLAYED).increment(1);
}

pub(crate) fn released() {
    counter!(RELEASED).increment(1);
}

/// A request in shadow mode went by. Unlisted routes are one operation without a name.
pub(crate) fn shadowed(operation: String, verdict: &'static str) {
    counter!(SHADOW, "operation" => operation, "verdict" => verdict).increment(1);
}

pub(crate) fn shadow_forgotten() {
    counter!(SHADOW_FORGOTTEN).increment(1);
}

/// The slowest hundredth of an operation's executions takes `p99` seconds and more, and may take
/// `most`.
pub(crate) fn paced(operation: &str, p99: f64, most: f64) {
    gauge!(EXECUTION_P99, "operation" => operation.to_owned()).set(p99);
    gauge!(EXECUTION_MAX, "operation" => operation.to_owned()).set(most);
}

pub(crate) fn passed() {
    counter!(PASSED).increment(1);
}

/// An upstream took `took` for a protected request; `result` says what became of it.
pub(crate) fn upstream(took: Duration, result: &'static str) {
    histogram!(UPSTREAM_SECONDS, "result" => result).record(took);
}

/// A copy of a claim took `took` to be decided, or was not.
pub(crate) fn claimed(took: Duration, answered: bool) {
    let answered = if answered { "yes" } else { "no" };
    histogram!(CLAIM_SECONDS, "answered" => answered).record(took);
}

/// Room for one execution, held while it is under way, and counted.
pub(crate) struct InFlight {
    _permit: OwnedSemaphorePermit,
}

impl InFlight {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        gauge!(IN_FLIGHT).increment(1);
        Self { _permit: permit }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        gauge!(IN_FLIGHT).decrement(1);
    }
}
