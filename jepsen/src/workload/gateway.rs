//! W2: requests through the gateways, end to end. Most keys are asked for a few times, some at once
//! and some much later; the upstream is slow, fails, hangs and closes connections.

use rand::RngExt;
use rand::rngs::StdRng;

use super::Turn;
use crate::generator::{how, node, one_of};
use crate::operation::{Name, Verb};
use crate::policy::TENANTS;

pub(super) async fn turn(turn: &mut Turn<'_>, random: &mut StdRng) {
    let keys = &turn.load.gateway_keys;
    let old = if random.random_bool(0.1) { keys.old(random) } else { None };
    let name = match old {
        Some(old) => old,
        None => keys.draw(random, |random, key| Name {
            tenant: one_of(random, &TENANTS),
            account: String::new(),
            // One in eight may run again after its lease: its upstream is declared idempotent.
            operation: if random.random_bool(0.125) { "again" } else { "orders" }.to_owned(),
            key,
        }),
    };
    let variant = u32::from(random.random_bool(0.05));
    let verb = Verb::Post { variant, how: how(random) };
    turn.call(node(random), &name, verb, "").await;
}
