//! W3: leases that end while their holders work. Some keys fail closed and wait for an operator,
//! others are taken over; holders come back late, renew, give up, or never come back.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{Granted, Turn};
use crate::client::Ended;
use crate::generator::{node, one_of, pause};
use crate::operation::{How, Name, Verb};
use crate::policy::{LEASE_MS, TENANTS};

pub(super) async fn turn(turn: &mut Turn<'_>, random: &mut StdRng) {
    if random.random_bool(0.2) {
        return through_a_gateway(turn, random).await;
    }
    let name = turn.load.claims_keys.draw(random, |random, key| Name {
        tenant: one_of(random, &TENANTS),
        account: String::new(),
        operation: one_of(random, &["claims", "again"]),
        key,
    });
    if random.random_bool(0.1) {
        turn.call(node(random), &name, Verb::Read, "").await;
    }
    let variant = u32::from(random.random_bool(0.03));
    let (ended, granted) = turn.claim(random, &name, variant, LEASE_MS).await;
    match granted {
        Some(granted) => hold(turn, random, &granted).await,
        None => settle(turn, random, &name, &ended).await,
    }
    turn.wait(pause(random, 400)).await;
}

/// What a holder does with its grant.
async fn hold(turn: &mut Turn<'_>, random: &mut StdRng, granted: &Granted) {
    let Granted { name, fence, token, .. } = granted;
    let (fence, at) = (*fence, node(random));
    let fate = random.random_range(0..100);
    if fate < 12 {
        // Nothing was executed, though perhaps much later than the lease.
        turn.wait(pause(random, 3500)).await;
        turn.call(at, name, Verb::Release { fence }, token).await;
        return;
    }
    let Some(nonce) = turn.execute(granted).await else { return };
    match fate {
        12..25 => {}
        25..35 => {
            turn.call(at, name, Verb::Unknown { fence }, token).await;
        }
        35..60 => {
            // Later than the lease.
            turn.wait(Duration::from_millis(random.random_range(1800..4000))).await;
            turn.complete(random, granted, &nonce).await;
        }
        60..80 => {
            for _ in 0..random.random_range(1..3) {
                turn.wait(Duration::from_millis(random.random_range(500..1700))).await;
                let verb = Verb::Renew { fence, lease_ms: LEASE_MS };
                turn.call(node(random), name, verb, token).await;
            }
            turn.complete(random, granted, &nonce).await;
        }
        _ => {
            turn.complete(random, granted, &nonce).await;
        }
    }
}

/// An operator settles what is indeterminate, now and then: with what was found to have happened,
/// or by a release, which waits for the last holder or is forced.
async fn settle(turn: &mut Turn<'_>, random: &mut StdRng, name: &Name, ended: &Ended) {
    if ended.answer.code != "outcome-indeterminate" || random.random_bool(0.6) {
        return;
    }
    let found = turn.call(node(random), name, Verb::Read, "").await.answer;
    if found.state != "indeterminate" {
        return;
    }
    let nonce = random.random_bool(0.4).then(|| format!("{}-{}", name.tenant, turn.fresh()));
    let force = random.random_bool(0.3);
    let verb = Verb::Resolve { fence: found.fence, nonce, force };
    turn.call(node(random), name, verb, "").await;
}

/// A request whose upstream hangs or fails, so that its gateway has to decide.
async fn through_a_gateway(turn: &mut Turn<'_>, random: &mut StdRng) {
    let name = turn.load.gateway_keys.draw(random, |random, key| Name {
        tenant: one_of(random, &TENANTS),
        account: String::new(),
        operation: one_of(random, &["orders", "again"]),
        key,
    });
    let how = match random.random_range(0..10) {
        0 => How::Hang,
        1 => How::ResetAfter,
        2..5 => How::After(random.random_range(1500..3500)),
        _ => How::After(random.random_range(0..50)),
    };
    turn.call(node(random), &name, Verb::Post { variant: 0, how }, "").await;
}
