//! The numbers that make leases safe, and the order of fences.

use super::*;

const SKEW: u64 = MAX_CLOCK_SKEW.get();

#[test]
fn a_copy_of_a_claim_lives_for_half_of_what_is_sure_of_its_lease_and_at_most_four_seconds() {
    let cases = [
        (0, 0),
        (1000, 0),
        (1001, 0),
        (1002, 1),
        (2000, 500),
        (3000, 1000),
        (8998, 3999),
        (9000, 4000),
        (10_000, 4000),
        (u64::MAX, 4000),
    ];
    for (lease, ttl) in cases {
        assert_eq!(claim_ttl(Millis::new(lease)), Millis::new(ttl), "lease {lease}");
    }
}

#[test]
fn the_bounds_of_leases_hold_together() {
    for lease in [LEASE_MIN.get(), 3000, 10_000, 3_600_000].map(Millis::new) {
        assert!(claim_ttl(lease) < lease.minus(Millis::new(2 * SKEW)));
        assert!(claim_ttl(lease) > Millis::ZERO);
        assert!(send_window(lease) > claim_ttl(lease));
        assert_eq!(send_window(lease).get(), lease.get() - 2 * SKEW - PAUSE.get());
        assert!(claim_ttl(lease) <= CLAIM_TTL_MAX);
    }
    assert_eq!(send_window(Millis::ZERO), Millis::ZERO);
    assert_eq!(TOMBSTONE_LIFE, Millis::new(7500));
    assert_eq!(FORGET_WAIT, Millis::new(3000));
    assert_eq!(DRAIN_MARGIN, Millis::new(2 * SKEW));
}

#[test]
fn fences_of_a_later_epoch_are_larger_and_all_fit_a_json_number() {
    let last = (1 << 45) - 1;
    assert!(Fence::new(0, 1) < Fence::new(0, 2));
    assert!(Fence::new(0, last) < Fence::new(1, 0));
    assert_eq!(Fence::new(255, last).as_number(), (1 << 53) - 1);
    assert_eq!(Fence::from_number(Fence::new(3, 7).as_number()), Fence::new(3, 7));
    assert_eq!(Fence::new(0, 42).to_string(), "42");
}

#[test]
#[should_panic(expected = "45 bits")]
fn a_counter_that_does_not_fit_is_not_given_out() {
    let _ = Fence::new(0, 1 << 45);
}

#[test]
fn a_holder_is_both_its_credential_and_its_attempt() {
    let holders = [
        HolderId::of(b"ab", b"c"),
        HolderId::of(b"a", b"bc"),
        HolderId::of(b"", b"abc"),
        HolderId::of(b"abc", b""),
        HolderId::of(b"c", b"ab"),
    ];
    for (index, holder) in holders.iter().enumerate() {
        assert!(!holders[..index].contains(holder));
    }
    assert_eq!(HolderId::of(b"a", b"b"), HolderId::of(b"a", b"b"));
}

#[test]
fn a_token_is_not_shown_by_accident() {
    assert_eq!(format!("{:?}", Token::new([0xAB; 16])), "Token(secret)");
}
