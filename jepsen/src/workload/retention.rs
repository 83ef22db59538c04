//! W4: equal keys of many tenants, accounts and operations; outcomes that are kept for three
//! seconds only; changed bodies; and answers so large that logs are purged and snapshots sent all
//! the time.

use rand::RngExt;
use rand::rngs::StdRng;

use super::Turn;
use crate::generator::{node, one_of};
use crate::operation::{How, Name, Verb};
use crate::policy::TENANTS;

pub(super) async fn turn(turn: &mut Turn<'_>, random: &mut StdRng) {
    let mut name = turn.load.gateway_keys.draw(random, |_, key| Name { key, ..Name::default() });
    // One text is the key of many records.
    name.tenant = one_of(random, &TENANTS);
    name.operation = one_of(random, &["orders", "short", "short", "accounts"]);
    if name.operation == "accounts" {
        name.account = one_of(random, &["a1", "a2", "a3"]);
    }
    let variant = u32::from(random.random_bool(0.1));
    let how = match random.random_range(0..20) {
        0 => How::Status(422),
        1 => How::Status(503),
        2 => How::ResetAfter,
        _ => How::After(random.random_range(0..20)),
    };
    turn.call(node(random), &name, Verb::Post { variant, how }, "").await;
}
