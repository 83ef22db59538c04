//! Partitions, delays and losses, by the proxies on the links.

use std::time::Duration;

use rand::RngExt;

use crate::cluster::{NODES, REGIONS};
use crate::history::{Installation, What};
use crate::nemesis::{Fault, Ground};
use crate::proxy::Weather;

pub(super) async fn install(
    ground: &mut Ground,
    fault: Fault,
    span: Duration,
) -> Result<Installation, Installation> {
    let victim = match fault {
        Fault::IsolateLeader | Fault::DeafLeader => ground.leader().await?,
        _ => ground.any(),
    };
    let others = Ground::others(victim);
    let links = ground.cluster.links.clone();
    let said = match fault {
        Fault::Isolate | Fault::IsolateLeader => {
            links.cut_between(&[victim], &others);
            ground.recorder.record(0, 0, What::Isolated(victim));
            format!("cut off {} ({})", victim, REGIONS[usize::from(victim - 1)])
        }
        Fault::OneWay => one_way(ground, victim, &others),
        Fault::DeafLeader => {
            let cut = Weather { cut: true, ..Weather::default() };
            others.iter().for_each(|other| links.set(*other, victim, cut));
            format!("{victim} hears nothing of the others")
        }
        Fault::Bridge => {
            links.cut_between(&others[..1], &others[1..]);
            format!("cut {others:?} from each other, {victim} reaches both")
        }
        Fault::Flapping => flap(ground, victim, span).await,
        Fault::Shatter => {
            (1..=NODES).for_each(|node| links.cut_between(&[node], &Ground::others(node)));
            "cut every node from every other".to_owned()
        }
        Fault::Loss => {
            let loss = f64::from(ground.random.random_range(1..=5_u8)) / 100.0;
            links.set_all(Weather { loss, ..Weather::default() });
            format!("lost {loss} of all packets")
        }
        Fault::Delay40 => delayed(ground, 40),
        Fault::Delay80 => delayed(ground, 80),
        Fault::Delay150 => delayed(ground, 150),
        other => return Err(Installation::Skipped(format!("{other} is no fault of the network"))),
    };
    Ok(Installation::Installed(said))
}

/// Nothing that `victim` says is heard, by one of the others or by both; or it hears nothing.
fn one_way(ground: &mut Ground, victim: u8, others: &[u8]) -> String {
    let cut = Weather { cut: true, ..Weather::default() };
    let deaf = ground.random.random_bool(0.5);
    let both = ground.random.random_bool(0.5);
    for other in others.iter().take(if both { 2 } else { 1 }) {
        let (from, to) = if deaf { (*other, victim) } else { (victim, *other) };
        ground.cluster.links.set(from, to, cut);
    }
    let what = if deaf { "hears nothing of" } else { "is not heard by" };
    format!("{victim} {what} {}", if both { "the others" } else { "one other" })
}

/// The partition comes and goes, faster than an election and slower, for the whole span.
async fn flap(ground: &mut Ground, victim: u8, span: Duration) -> String {
    let begin = tokio::time::Instant::now();
    let mut times = 0;
    while begin.elapsed() < span {
        ground.cluster.links.cut_between(&[victim], &Ground::others(victim));
        let cut = Duration::from_millis(ground.random.random_range(100..1200));
        tokio::time::sleep(cut).await;
        ground.cluster.links.set_all(Weather::default());
        let whole = Duration::from_millis(ground.random.random_range(50..600));
        tokio::time::sleep(whole).await;
        times += 1;
    }
    format!("cut off {victim} {times} times")
}

fn delayed(ground: &Ground, millis: u64) -> String {
    let delay = Duration::from_millis(millis);
    let weather = Weather { delay, jitter: delay / 4, ..Weather::default() };
    ground.cluster.links.set_all(weather);
    format!("delayed every link by {millis} ms and up to a quarter more")
}
