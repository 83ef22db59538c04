use super::*;

/// What every clock would show at boot time zero if it had no error.
const TRUE_MS: i64 = 1_800_000_000_000;

const SKEW_MS: i64 = MAX_CLOCK_SKEW.get() as i64;

/// The clock of a machine with this error, at a boot time in milliseconds.
fn wall(error_ms: i64, boot_ms: u64) -> Timestamp {
    Timestamp::from_millis((TRUE_MS + error_ms) as u64 + boot_ms)
}

fn look(error_ms: i64, boot_ms: u64) -> Look {
    Look { wall: wall(error_ms, boot_ms), boot: Duration::from_millis(boot_ms) }
}

/// An answer over a path that takes `there_ms` and `back_ms`, asked at `boot_ms`.
fn round(error_ms: i64, boot_ms: u64, there_ms: u64, back_ms: u64) -> Round {
    Round {
        asked: Duration::from_millis(boot_ms),
        wall: wall(error_ms, boot_ms + there_ms),
        heard: Duration::from_millis(boot_ms + there_ms + back_ms),
    }
}

/// A cluster in which the peers with these errors were heard at boot time 1 s, without delay.
fn heard(members: usize, errors_ms: &[i64]) -> Offsets {
    let mut offsets = Offsets::new(members);
    for (index, error_ms) in errors_ms.iter().enumerate() {
        offsets.sample(NodeId(index as u64 + 2), round(*error_ms, 1000, 0, 0));
    }
    offsets
}

#[test]
fn the_own_clock_is_measured_against_the_median_of_all() {
    struct Case {
        members: usize,
        own_ms: i64,
        peers_ms: &'static [i64],
        offset_ms: i64,
        trusted: bool,
    }
    let case = |members, own_ms, peers_ms, offset_ms, trusted| Case {
        members,
        own_ms,
        peers_ms,
        offset_ms,
        trusted,
    };
    let cases = [
        case(1, 0, &[], 0, true),
        case(1, 90_000, &[], 0, true),
        // Everybody heard: the middle clock.
        case(3, 0, &[10, 20], -10, true),
        case(3, 15, &[10, 20], 0, true),
        case(3, 490, &[0, 0], 490, true),
        case(3, 510, &[0, 0], 510, false),
        case(3, -490, &[0, 0], -490, true),
        case(3, -510, &[0, 0], -510, false),
        // One liar among three changes nothing, wherever the lie points.
        case(3, 0, &[3_600_000, 5], -5, true),
        case(3, 0, &[-3_600_000, -5], 5, true),
        // Two of three that agree on another time are right.
        case(3, 0, &[700, 700], -700, false),
        case(5, 0, &[40, 30, 20, 10], -20, true),
        case(5, 0, &[9_999, -9_999, 480, 490], -480, true),
        case(5, 0, &[9_999, 9_999, 510, 0], -510, false),
        // A bare majority: the unheard clock may put the median anywhere between the two.
        case(3, 0, &[490], -245, true),
        case(3, 0, &[510], -255, false),
        case(5, 0, &[-490, 490], 0, true),
        case(5, 0, &[-490, 510], -10, false),
        // Four of five: the median is one of the middle two.
        case(5, 0, &[100, 200, 9_999], -150, true),
        // Even numbers of clocks have two middle ones.
        case(4, 0, &[300, 400, 500], -350, true),
        case(2, 0, &[400], -200, true),
    ];
    for (index, case) in cases.iter().enumerate() {
        let standing = heard(case.members, case.peers_ms).standing(look(case.own_ms, 1000));
        let offset_ms = standing.offset_us.unwrap() / 1000;
        assert_eq!(offset_ms, case.offset_ms, "case {index}");
        assert_eq!(standing.trust.is_ok(), case.trusted, "case {index}: {standing:?}");
    }
}

#[test]
fn a_trusted_clock_is_within_the_skew_of_the_true_median_whatever_was_not_heard() {
    // Every way to place five clocks on a coarse grid, and every subset of peers to have heard.
    let grid_ms = [-900_i64, -450, 0, 450, 900];
    let mut trusted = 0;
    for code in 0..5_usize.pow(5) {
        let errors_ms: Vec<i64> =
            (0..5).map(|place| grid_ms[code / 5_usize.pow(place) % 5]).collect();
        let mut sorted = errors_ms.clone();
        sorted.sort_unstable();
        for subset in 0..16_usize {
            let mut offsets = Offsets::new(5);
            for peer in (0..4).filter(|peer| subset & (1 << peer) != 0) {
                let round = round(errors_ms[peer + 1], 1000, 0, 0);
                offsets.sample(NodeId(peer as u64 + 2), round);
            }
            let standing = offsets.standing(look(errors_ms[0], 1000));
            if standing.trust.is_ok() {
                trusted += 1;
                assert!((errors_ms[0] - sorted[2]).abs() <= SKEW_MS, "{errors_ms:?} {subset:b}");
            }
        }
    }
    assert!(trusted > 10_000, "the rule must not distrust everybody: {trusted}");
}

#[test]
fn without_a_majority_nothing_is_trusted() {
    for (members, peers) in [(3, 0), (5, 0), (5, 1), (4, 1)] {
        let offsets = heard(members, &vec![0; peers]);
        let standing = offsets.standing(look(0, 1000));
        let expected = Distrust::Unconfirmed { heard: peers + 1, needed: members / 2 + 1 };
        assert_eq!(standing, Standing { offset_us: None, trust: Err(expected) });
    }
}

#[test]
fn what_was_heard_counts_for_ten_seconds_and_no_longer() {
    let offsets = heard(3, &[0]);
    assert!(offsets.standing(look(0, 11_000)).trust.is_ok());
    let stale = offsets.standing(look(0, 11_001)).trust;
    assert_eq!(stale, Err(Distrust::Unconfirmed { heard: 1, needed: 2 }));
}

#[test]
fn a_silent_majority_still_convicts_a_clock_that_creeps_away() {
    let mut offsets = heard(3, &[0, 0]);
    // Twice the true speed: never a jump between two looks, yet seen without any new answer.
    for step in 1..=80_u64 {
        assert_eq!(offsets.look(look(10 * step as i64, 1000 + 10 * step)), None);
    }
    let off = Distrust::Off { offset_ms: 800 };
    assert_eq!(offsets.standing(look(800, 1800)).trust, Err(off));
}

#[test]
fn a_jump_is_more_than_the_skew_between_two_looks() {
    for (jump_ms, seen) in [(500, false), (-500, false), (501, true), (-501, true)] {
        let mut offsets = heard(3, &[0, 0]);
        assert_eq!(offsets.look(look(0, 1000)), None, "the first look has nothing to compare with");
        assert_eq!(offsets.look(look(0, 60_000)), None, "time that passes is no jump");
        let jump_us = offsets.look(look(jump_ms, 60_100));
        assert_eq!(jump_us, seen.then_some(jump_ms * 1000));
        assert_eq!(offsets.peers.is_empty(), seen, "a jump forgets what was heard before it");
        assert_eq!(offsets.look(look(jump_ms, 60_200)), None, "one jump is told once");
    }
}

#[test]
fn an_asymmetric_path_widens_the_estimate_but_never_leaves_the_truth_out() {
    for (there_ms, back_ms) in [(0, 400), (400, 0), (100, 300), (200, 200)] {
        let mut offsets = Offsets::new(3);
        offsets.sample(NodeId(2), round(0, 1000, there_ms, back_ms));
        let best = offsets.peers[&NodeId(2)].best;
        let error_us = (best.base_us - TRUE_MS * 1000).abs();
        assert!(error_us <= best.half_us, "{there_ms} there, {back_ms} back: {error_us}");
        assert_eq!(best.half_us, 201_000);
        // Half a round trip of 200 ms leaves 300 ms of the skew to the clocks.
        let ahead_ms = (TRUE_MS * 1000 - best.base_us) / 1000;
        assert!(offsets.standing(look(298 - ahead_ms, 1400)).trust.is_ok());
        assert!(offsets.standing(look(302 - ahead_ms, 1400)).trust.is_err());
    }
}

#[test]
fn the_best_recent_sample_is_kept() {
    let mut offsets = Offsets::new(3);
    let best = |offsets: &Offsets| offsets.peers[&NodeId(2)].best;
    offsets.sample(NodeId(2), round(0, 1000, 2, 2));
    offsets.sample(NodeId(2), round(0, 2000, 0, 300));
    assert_eq!(best(&offsets).taken, Duration::from_millis(1004), "a congested answer is worse");
    assert_eq!(offsets.peers[&NodeId(2)].heard, Duration::from_millis(2300), "but it was heard");
    offsets.sample(NodeId(2), round(0, 20_000, 5, 5));
    assert_eq!(best(&offsets).taken, Duration::from_millis(20_010), "age made the first one worse");
}

#[test]
fn a_sample_that_contradicts_the_kept_one_replaces_it() {
    let mut offsets = Offsets::new(3);
    offsets.sample(NodeId(2), round(0, 1000, 1, 1));
    offsets.sample(NodeId(2), round(250, 2000, 0, 400));
    let estimate = |offsets: &Offsets| offsets.estimate(NodeId(2), Duration::from_secs(3)).unwrap();
    assert_eq!(estimate(&offsets), wall(0, 3000), "within what the slow answer leaves open");
    offsets.sample(NodeId(2), round(5_000, 2500, 100, 100));
    assert_eq!(estimate(&offsets), wall(5_000, 3000), "the peer's clock was set");
}

#[test]
fn absurd_clocks_are_distrusted_and_overflow_nothing() {
    let boot = Duration::from_secs(1);
    for wall in [Timestamp::ZERO, Timestamp::MAX] {
        let mut offsets = Offsets::new(3);
        offsets.look(look(0, 900));
        offsets.sample(NodeId(2), Round { asked: boot, wall, heard: boot });
        offsets.sample(NodeId(3), Round { asked: Duration::ZERO, wall, heard: boot });
        assert!(offsets.standing(look(0, 1000)).trust.is_err());
        assert!(offsets.estimate(NodeId(2), boot).is_some());
        assert!(offsets.look(Look { wall, boot }).is_some());
        let late = Duration::from_secs(u64::MAX / 2);
        offsets.sample(NodeId(3), Round { asked: boot, wall, heard: late });
        offsets.sample(NodeId(3), Round { asked: boot, wall: Timestamp::ZERO, heard: late });
        assert!(offsets.standing(Look { wall: Timestamp::ZERO, boot: late }).offset_us.is_some());
    }
}
