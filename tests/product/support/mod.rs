//! What the product's tests stand on: clusters of the real binary, a stub upstream, a small HTTP
//! client.

pub(crate) mod cluster;
pub(crate) mod http;
pub(crate) mod policy;
pub(crate) mod upstream;

use std::future::Future;
use std::time::{Duration, Instant};

/// Runs a test on a runtime of its own, with a bound: a test that hangs has failed.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let bound = Duration::from_secs(180);
        tokio::time::timeout(bound, test).await.expect("the test ends within its bound");
    });
}

/// Waits until `condition` holds, looking again every few milliseconds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let begin = Instant::now();
    while !condition().await {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A key that no other test uses.
pub(crate) fn fresh_key() -> String {
    format!("key-{:032x}", rand::random::<u128>())
}
