//! How long executions take against how long they may, as operators see it.

use ::http::Method;
use futures_util::future::join_all;

use crate::support::cluster::Setup;
use crate::support::http::{Order, send};
use crate::support::policy::policy;
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

#[test]
fn an_operation_with_too_little_time_is_shown_and_logged() {
    run(async {
        let upstream = Upstream::start().await;
        let rest = "[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\nlease = \"2s\"\n\
                    max_execution = \"3s\"\nanswer_within = \"3s\"\n";
        let cluster = Setup::single(policy(&["a"], rest), upstream.address).start().await;
        let orders: Vec<_> =
            (0..110).map(|_| Order::new(&fresh_key()).path("/orders?delay=2050")).collect();
        let answers = join_all(orders.iter().map(|order| order.post(cluster.gateway(0)))).await;
        assert!(answers.iter().all(|answer| [201, 504].contains(&answer.status.as_u16())));
        let text = send(cluster.api(0), Method::GET, "/metrics", &[], "").await.unwrap().text();
        let shown = |metric: &str| {
            let series = format!("oncegate_gateway_execution_{metric}{{operation=\"orders\"}} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&series));
            value.unwrap_or_else(|| panic!("{metric}:\n{text}")).parse::<f64>().unwrap()
        };
        assert!(shown("p99_seconds") > 2.0, "{text}");
        assert_eq!(shown("max_seconds"), 3.0);
        assert!(cluster.log(0).contains("max_execution is under 1.5 times"));
    });
}
