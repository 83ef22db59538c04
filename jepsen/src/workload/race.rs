//! W1: clients in all regions race for a few hot keys at a time, half of them through the gateways
//! and half through the claims API.

use rand::RngExt;
use rand::rngs::StdRng;

use super::Turn;
use crate::generator::{node, one_of, pause};
use crate::operation::{How, Name, Verb};
use crate::policy::{LEASE_MS, TENANTS};

fn name(random: &mut StdRng, operation: &str, key: String) -> Name {
    let (tenant, operation) = (one_of(random, &TENANTS), operation.to_owned());
    Name { tenant, account: String::new(), operation, key }
}

pub(super) async fn turn(turn: &mut Turn<'_>, random: &mut StdRng) {
    if random.random_bool(0.5) {
        let draw = |random: &mut StdRng, key| name(random, "orders", key);
        let name = turn.load.gateway_keys.draw(random, draw);
        let how = How::After(random.random_range(0..40));
        turn.call(node(random), &name, Verb::Post { variant: 0, how }, "").await;
        return;
    }
    let draw = |random: &mut StdRng, key| name(random, "claims", key);
    let name = turn.load.claims_keys.draw(random, draw);
    let variant = u32::from(random.random_bool(0.05));
    let (_, Some(granted)) = turn.claim(random, &name, variant, LEASE_MS).await else { return };
    let at = node(random);
    let fence = granted.fence;
    match random.random_range(0..100) {
        // Nothing was executed, so the key is given back.
        0..15 => {
            turn.call(at, &name, Verb::Release { fence }, &granted.token).await;
        }
        15..20 => {
            turn.execute(&granted).await;
            turn.call(at, &name, Verb::Unknown { fence }, &granted.token).await;
        }
        // The service dies.
        20..23 => {}
        rest => {
            let Some(nonce) = turn.execute(&granted).await else { return };
            if rest < 33 {
                let verb = Verb::Renew { fence, lease_ms: LEASE_MS };
                turn.call(at, &name, verb, &granted.token).await;
            }
            turn.wait(pause(random, 20)).await;
            turn.complete(random, &granted, &nonce).await;
        }
    }
}
