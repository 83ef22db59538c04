//! How many requests a tenant may send, before anything is looked up or stored for it.
//!
//! A burst is taken at once, then requests pass evenly (the generic cell rate algorithm). Each edge
//! of each process counts for itself: nothing is replicated for a request that is refused, so a
//! cluster of three gateways lets through up to three times the configured rate.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use protocol::Millis;

use crate::config::{Policy, RateLimit};
use crate::judge::BootClock;
use crate::problem::{Code, Problem};

type Limiter = RateLimiter<NotKeyed, InMemoryState, Boot, NoOpMiddleware<Duration>>;

/// The limit of every tenant of a policy. Its size is that of the policy.
pub struct RateLimits {
    clock: Boot,
    /// Empty where nothing is limited.
    tenants: HashMap<String, Limiter>,
    /// What tenants share that the policy does not list.
    others: Option<Limiter>,
}

impl RateLimits {
    /// The limits of a policy, none of them used up.
    pub fn new(policy: &Policy, clock: BootClock) -> Self {
        let clock = Boot(clock);
        let limiter = |limit: RateLimit| {
            let quota = Quota::per_second(limit.per_second).allow_burst(limit.burst);
            RateLimiter::direct_with_clock(quota, clock.clone())
        };
        let tenants = match policy.rate_limit {
            None => HashMap::new(),
            Some(limit) => {
                policy.tenants.iter().map(|it| (it.name.clone(), limiter(limit))).collect()
            }
        };
        Self { tenants, others: policy.rate_limit.map(limiter), clock }
    }

    /// Whether anything is limited.
    pub fn limits(&self) -> bool {
        self.others.is_some()
    }

    /// Counts one request of a tenant.
    ///
    /// # Errors
    /// `rate-limited`, with the time after which the next one passes; it is not counted then.
    pub fn admit(&self, tenant: &str) -> Result<(), Problem> {
        let Some(limiter) = self.tenants.get(tenant).or(self.others.as_ref()) else {
            return Ok(());
        };
        limiter.check().map_err(|refused| {
            let wait = refused.wait_time_from(self.clock.now());
            let wait = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            Problem::new(Code::RateLimited, "the tenant sends more requests than it may")
                .retry_after(Millis::new(wait))
        })
    }
}

impl fmt::Debug for RateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimits").field("tenants", &self.tenants.len()).finish_non_exhaustive()
    }
}

/// The boot-time clock, as the limiter reads it.
#[derive(Clone)]
struct Boot(BootClock);

impl Clock for Boot {
    type Instant = Duration;

    fn now(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Boot")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use axum::response::IntoResponse;
    use http::header::RETRY_AFTER;

    use super::*;

    fn limits(text: &str) -> (RateLimits, Arc<AtomicU64>) {
        let text = format!(
            "{text}\n[[tenant]]\nname = \"a\"\ncredentials = []\n\
             [[tenant]]\nname = \"b\"\ncredentials = []\n"
        );
        let (policy, _) = Policy::parse(Path::new("policy.toml"), &text).unwrap();
        let now = Arc::new(AtomicU64::new(1000));
        let read = Arc::clone(&now);
        let clock: BootClock = Arc::new(move || Duration::from_millis(read.load(Ordering::SeqCst)));
        (RateLimits::new(&policy, clock), now)
    }

    fn passed(limits: &RateLimits, tenant: &str, tries: usize) -> usize {
        (0..tries).filter(|_| limits.admit(tenant).is_ok()).count()
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        let (limits, now) = limits("rate_limit = { per_second = 10, burst = 20 }");
        assert_eq!(passed(&limits, "a", 50), 20);
        now.fetch_add(100, Ordering::SeqCst);
        assert_eq!(passed(&limits, "a", 50), 1);
        now.fetch_add(1000, Ordering::SeqCst);
        assert_eq!(passed(&limits, "a", 50), 10);
        now.fetch_add(1_000_000, Ordering::SeqCst);
        assert_eq!(passed(&limits, "a", 50), 20, "no more than a burst is saved up");
    }

    #[test]
    fn tenants_do_not_use_up_each_others_limits() {
        let (limits, _now) = limits("rate_limit = { per_second = 1, burst = 3 }");
        assert_eq!(passed(&limits, "a", 10), 3);
        assert_eq!(passed(&limits, "b", 10), 3);
        assert_eq!(passed(&limits, "not listed", 2), 2);
        assert_eq!(passed(&limits, "not listed either", 2), 1, "these share one");
    }

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let (limits, now) = limits("rate_limit = { per_second = 1, burst = 1 }");
        assert_eq!(passed(&limits, "a", 1), 1);
        now.fetch_add(300, Ordering::SeqCst);
        let refused = limits.admit("a").unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        let response = refused.into_response();
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        now.fetch_add(700, Ordering::SeqCst);
        assert!(limits.admit("a").is_ok());
    }

    #[test]
    fn without_the_setting_nothing_is_limited() {
        let (limits, _now) = limits("");
        assert!(!limits.limits());
        assert_eq!(passed(&limits, "a", 1000), 1000);
    }
}
