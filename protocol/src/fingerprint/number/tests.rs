//! Tests of canonical numbers. Doubles are judged by the standard library's own conversions.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const ROUNDS: usize = 20_000;

/// A number's exact decimal: sign, digits without zeros at either end, exponent.
type Decimal = (bool, String, i64);

fn canonical(literal: &str) -> String {
    let mut out = Vec::new();
    let length = NumberWriter::default().write(literal.as_bytes(), &mut out);
    assert_eq!(length, Some(literal.len()), "{literal}");
    String::from_utf8(out).unwrap()
}

/// The exact decimal that a text of any layout names.
fn decimal(text: &str) -> Decimal {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0').trim_end_matches('0').to_owned();
    if digits.is_empty() {
        return (false, digits, 0);
    }
    let zeros = all.len() - all.trim_end_matches('0').len();
    let exponent: i64 = exponent.parse().unwrap();
    (negative, digits, exponent - fraction.len() as i64 + zeros as i64)
}

fn assert_equal(literals: &[&str]) {
    for literal in literals {
        assert_eq!(canonical(literal), canonical(literals[0]), "{literal} {}", literals[0]);
    }
}

fn assert_different(literals: &[&str]) {
    for (nth, one) in literals.iter().enumerate() {
        for other in &literals[..nth] {
            assert_ne!(canonical(one), canonical(other), "{one} {other}");
        }
    }
}

#[test]
fn c37_integers_compare_exactly_at_any_size() {
    assert_different(&["9007199254740992", "9007199254740993", "-9007199254740992"]);
    assert_different(&["18446744073709551616", "18446744073709551617"]);
    let forty = "1234567890123456789012345678901234567890";
    assert_different(&[forty, "1234567890123456789012345678901234567891"]);
    assert_different(&["1", "10", "100", "1000", "10000", "100000"]);
    assert_equal(&["0", "-0"]);
}

#[test]
fn c38_spellings_of_one_double_are_equal() {
    assert_equal(&["1", "1.0", "1e0", "10e-1", "0.1e1", "1E+0", "1.000e00", "100e-2"]);
    assert_equal(&["0", "-0", "0.0", "-0.0", "0e5", "-0e-5", "0.000e999999999", "0e-999999999"]);
    assert_equal(&["1000", "1e3", "1E3", "1.0e+3", "1000.0", "10000e-1", "0.001e6"]);
    assert_equal(&["-12.5", "-1.25e1", "-125e-1", "-12.500", "-0.125E2"]);
    assert_equal(&["0.1", "1e-1", "0.10", "0.1000000000000000055511151231257827"]);
    assert_equal(&["9007199254740993.0", "9007199254740992", "9007199254740993e0"]);
    assert_equal(&["1e21", "1000000000000000000000", "1000000000000000000000.0"]);
    assert_equal(&["1e23", "100000000000000000000000", "99999999999999991611392.0"]);
    assert_different(&["1e23", "99999999999999991611392"]);
    assert_different(&["0.1", "0.10000000000000001e1", "-0.1", "0.01", "0.11"]);
}

#[test]
fn c38_beyond_doubles_the_decimal_counts() {
    assert_different(&["1e400", "1e500", "1e999999999", "2e999999999", "-1e400"]);
    assert_different(&["1e-400", "1e-500", "1e-999999999", "0", "-1e-400"]);
    assert_equal(&["1e400", "10e399", "0.1e401", "1.0e400", "100e+398"]);
    assert_equal(&["1e-400", "0.1e-399", "10e-401", "1.00e-400"]);
    assert_equal(&["12.5e999", "1.25e1000", "125e998", "1250e997"]);
    let integer = format!("1{}", "0".repeat(400));
    assert_equal(&["1e400", &integer, &format!("{integer}.0")]);
    assert_different(&["1e400", &format!("{integer}1")]);
}

#[test]
fn doubles_end_where_the_standard_library_ends_them() {
    assert_equal(&["5e-324", "4e-324", "3e-324", "4.9406564584124654e-324"]);
    assert_different(&["5e-324", "2e-324", "1e-324", "0"]);
    assert_equal(&["1.7976931348623157e308", "1.7976931348623158e308"]);
    assert_different(&["1.7976931348623157e308", "1.7976931348623159e308", "1.8e308"]);
    assert_equal(&["1.8e308", "18e307"]);
    assert_equal(&["2e-324", "0.2e-323"]);
}

#[test]
fn exponents_of_any_length_cost_nothing() {
    let nines = "9".repeat(1000);
    let ten_to_1000 = format!("1{}", "0".repeat(1000));
    assert_equal(&[&format!("10e{nines}"), &format!("1e{ten_to_1000}")]);
    assert_equal(&[&format!("0.01e{ten_to_1000}"), &format!("0.1e{nines}")]);
    assert_equal(&[&format!("0.1e-{nines}"), &format!("1e-{ten_to_1000}")]);
    assert_equal(&[&format!("100e-{ten_to_1000}"), &format!("10e-{nines}")]);
    assert_equal(&[&format!("1e{nines}"), &format!("1.0e000{nines}")]);
    let (plus, minus) = (format!("1e{nines}"), format!("1e-{nines}"));
    assert_different(&[&plus, &minus, &format!("-{plus}"), &format!("1e{ten_to_1000}"), "0"]);
    assert_equal(&[&format!("0e{nines}"), "0"]);
}

#[test]
fn exponents_that_fit_a_number_meet_those_that_do_not() {
    assert_equal(&["10e999999999999999999", "1e1000000000000000000"]);
    assert_equal(&["0.1e1000000000000000000", "1e999999999999999999"]);
    assert_equal(&["0.1e-999999999999999999", "1e-1000000000000000000"]);
    assert_equal(&["10e-1000000000000000000", "1e-999999999999999999"]);
}

/// Zeros in front of a million digits, with an exponent that makes up for them, are a plain number.
#[test]
fn zeros_and_exponent_may_cancel_out() {
    let zeros = "0".repeat(1_000_000);
    assert_equal(&["1", &format!("0.{zeros}1e1000001"), &format!("1{zeros}e-1000000")]);
    assert_equal(&["0.25", &format!("0.{zeros}25e1000000")]);
    let threes = "3".repeat(100_000);
    assert_equal(&["0.3333333333333333", &format!("0.{threes}")]);
}

#[test]
fn the_decimal_of_a_double_is_the_one_rfc_8785_prints() {
    let appendix_b: [(u64, &str); 24] = [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7fefffffffffffff, "1.7976931348623157e+308"),
        (0xffefffffffffffff, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xc340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44b52d02c7e14af5, "9.999999999999997e+22"),
        (0x44b52d02c7e14af6, "1e+23"),
        (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
        (0x444b1ae4d6e2ef4e, "999999999999999700000"),
        (0x444b1ae4d6e2ef4f, "999999999999999900000"),
        (0x444b1ae4d6e2ef50, "1e+21"),
        (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
        (0x3eb0c6f7a0b5ed8d, "0.000001"),
        (0x41b3de4355555553, "333333333.3333332"),
        (0x41b3de4355555554, "333333333.33333325"),
        (0x41b3de4355555555, "333333333.3333333"),
        (0x41b3de4355555556, "333333333.3333334"),
        (0x41b3de4355555557, "333333333.33333343"),
        (0xbecbf647612f3696, "-0.0000033333333333333333"),
        (0x43143ff3c1cb0959, "1424953923781206.2"),
    ];
    for (bits, printed) in appendix_b {
        // Every digit that the double has, so that the literal does not give the answer away.
        let exact = format!("{:.1100}", f64::from_bits(bits));
        assert_eq!(decimal(&canonical(&exact)), decimal(printed), "{bits:#x}");
    }
}

#[test]
fn spellings_of_random_doubles_are_equal_and_neighbours_differ() {
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..ROUNDS {
        let double = f64::from_bits(rng.random());
        if !double.is_finite() || double.abs() >= 1e308 {
            continue;
        }
        let shortest = format!("{double:e}");
        let spelled = canonical(&shortest);
        // Between two shortest decimals that are equally close, RFC 8785 takes the even one and the
        // standard library the larger one.
        assert_eq!(decimal(&spelled).1.len(), decimal(&shortest).1.len(), "{spelled} {shortest}");
        assert_eq!(canonical(&format!("{double:.25e}")), spelled);
        assert_eq!(canonical(&format!("{double:.17e}")), spelled);
        assert_ne!(canonical(&format!("{:.17e}", double.next_up())), spelled);
        assert_eq!(spelled.parse::<f64>().unwrap(), double);
    }
}

/// Few digits take a shortcut past the double; it must lead to the same place.
#[test]
fn short_decimals_are_the_shortest_for_their_double() {
    let mut rng = StdRng::seed_from_u64(2);
    for _ in 0..ROUNDS {
        let digits = rng.random_range(1..=16);
        let whole = rng.random_range(0..10_u64.pow(digits));
        let exponent = rng.random_range(-320..310);
        let literal = match rng.random_range(0..3) {
            0 => format!("{whole}e{exponent}"),
            1 => format!("{}.{:03}", whole / 1000, whole % 1000),
            _ => format!("0.{whole}E{exponent:+}"),
        };
        let double: f64 = literal.parse().unwrap();
        let text = canonical(&literal);
        if double == 0.0 || double.is_infinite() {
            assert_eq!(decimal(&text), decimal(&literal.to_ascii_lowercase()), "{literal}");
        } else {
            let shortest = decimal(&format!("{double:e}")).1;
            assert_eq!(decimal(&text).1.len(), shortest.len(), "{literal}");
            assert_eq!(text, canonical(&format!("{double:.40e}")), "{literal}");
        }
    }
}

#[test]
fn a_canonical_number_is_a_number_and_no_longer_than_the_literal() {
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..ROUNDS {
        let digit = |rng: &mut StdRng| char::from(b'0' + rng.random_range(0..10));
        let mut literal = String::from(if rng.random() { "-" } else { "" });
        literal.push(char::from(b'1' + rng.random_range(0..9)));
        (0..rng.random_range(0..30)).for_each(|_| literal.push(digit(&mut rng)));
        if rng.random() {
            literal.push('.');
            (0..rng.random_range(1..20)).for_each(|_| literal.push(digit(&mut rng)));
        }
        if rng.random() {
            literal.push_str(&format!("e{}", rng.random_range(-400..400)));
        }
        let text = canonical(&literal);
        assert!(text.len() <= literal.len(), "{literal} became {text}");
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    }
}

#[test]
fn what_is_no_number_is_refused() {
    let bad =
        ["", "-", "+1", ".5", "1.", "1.e1", "01", "-01", "00", "1e", "1e+", "1e-", "x", "- 1"];
    for text in bad {
        let length = NumberWriter::default().write(text.as_bytes(), &mut Vec::new());
        assert_eq!(length, None, "{text}");
    }
    for (text, length) in [("1,", 1), ("1]", 1), ("1.5}", 3), ("0x10", 1), ("1e5e5", 3), ("1-", 1)]
    {
        let found = NumberWriter::default().write(text.as_bytes(), &mut Vec::new());
        assert_eq!(found, Some(length), "{text}");
    }
}
