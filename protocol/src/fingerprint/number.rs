//! Canonical text of a JSON number.
//!
//! A number is compared as an exact decimal, *digits* x 10^*exponent*, where the digits neither
//! begin nor end with a zero:
//! - a literal without fraction and exponent is its own decimal, at any size;
//! - any other literal is the shortest decimal that names its IEEE double, which is the one that
//!   RFC 8785 prints. So `1.0`, `10e-1` and `1` are equal, `9007199254740993.0` equals
//!   `9007199254740992`, and `1e23` equals 1 with 23 zeros;
//! - where the double overflows, or vanishes though the literal is not zero, the literal's own
//!   decimal counts: `1e400` equals `10e399` and differs from `1e500`;
//! - zero has no sign.
//!
//! The text is a JSON number with exactly this decimal. Its layout is not RFC 8785's, which writes
//! `1e20` with 21 digits, so that a body of such numbers would grow fivefold: this one is no longer
//! than the literal, but for one digit in an exponent of many.

use std::fmt::Write;

/// Decimals of at most so many digits survive the way to a double and back, since two of them never
/// share one (`DBL_DIG` of the C standard). It holds for normal doubles only.
const DIGITS_KEPT: usize = 15;

/// Powers of ten, up or down, up to which a first digit makes a normal double with a margin: these
/// reach from 2.2e-308 to 1.8e308.
const POWER_KEPT: u64 = 300;

/// Beyond this power of ten, up or down, a first digit makes no double but zero or infinity: the
/// others reach from 4.9e-324 to 1.8e308.
const POWER_OF_DOUBLES: u64 = 400;

/// Exponents of at most so many digits fit an `i64`, also after the length of a body was added.
const EXPONENT_DIGITS: usize = 18;

/// So many zeros after the digits are written out: an exponent would not be shorter.
const ZEROS: &[u8] = b"00";

/// Writes canonical numbers. It keeps its buffers, so that a document full of numbers costs no
/// allocation for each.
#[derive(Default)]
pub(super) struct NumberWriter {
    digits: Vec<u8>,
    text: String,
}

/// A number as it is written.
struct Literal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: Option<Exponent<'a>>,
    length: usize,
}

/// An exponent as it is written, without leading zeros.
#[derive(Clone, Copy)]
struct Exponent<'a> {
    negative: bool,
    digits: &'a [u8],
}

impl NumberWriter {
    /// Writes the number that `text` begins with to `out` and returns the length of its literal;
    /// `None` where `text` does not begin with a number as RFC 8259 has it.
    pub(super) fn write(&mut self, text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let literal = Literal::scan(text)?;
        if literal.is_canonical() {
            out.extend_from_slice(&text[..literal.length]);
        } else if literal.is_integer() {
            write_integer(literal.negative, literal.whole, out);
        } else {
            self.write_decimal(&literal, out);
        }
        Some(literal.length)
    }

    fn write_decimal(&mut self, literal: &Literal<'_>, out: &mut Vec<u8>) {
        let shift = self.take_digits(literal);
        if self.digits.is_empty() {
            return out.push(b'0');
        }
        if literal.negative {
            out.push(b'-');
        }
        let Some(exponent) = literal.exponent else { return self.write_near(shift, out) };
        match exponent.as_number() {
            Some(exponent) => self.write_near(exponent + shift, out),
            None => {
                out.extend_from_slice(&self.digits);
                write_far_exponent(exponent, shift, out);
            }
        }
    }

    /// Takes the significant digits of the literal; returns what has to be added to its exponent
    /// where they are taken for a whole number.
    fn take_digits(&mut self, literal: &Literal<'_>) -> i64 {
        let whole = without_leading_zeros(literal.whole);
        let fraction = literal.fraction;
        let after = if whole.is_empty() { without_leading_zeros(fraction) } else { fraction };
        self.digits.clear();
        self.digits.extend_from_slice(whole);
        self.digits.extend_from_slice(after);
        let zeros = trailing_zeros(&self.digits);
        self.digits.truncate(self.digits.len() - zeros);
        zeros as i64 - fraction.len() as i64
    }

    /// Writes the digits taken, times ten to the power of `exponent`.
    fn write_near(&mut self, exponent: i64, out: &mut Vec<u8>) {
        let power = exponent + self.digits.len() as i64 - 1;
        let kept = self.digits.len() <= DIGITS_KEPT && power.unsigned_abs() <= POWER_KEPT;
        let exponent = if kept || power.unsigned_abs() > POWER_OF_DOUBLES {
            exponent
        } else {
            self.round(power).unwrap_or(exponent)
        };
        lay_out(&self.digits, exponent, out);
    }

    /// Replaces the digits taken, the first of which stands for ten to the power of `power`, by
    /// those that their double is printed with, and returns the exponent of these. `None`, and the
    /// digits stay, where the double is zero or infinite.
    fn round(&mut self, power: i64) -> Option<i64> {
        // The standard library loses count in exponents of many digits, even where as many zeros
        // make up for them. Here the point stands before the first digit, so there are few.
        self.text.clear();
        self.text.push_str("0.");
        self.text.extend(self.digits.iter().copied().map(char::from));
        write!(self.text, "e{}", power + 1).expect("a text takes all that is written to it");
        let double: f64 = self.text.parse().expect("digits, point and exponent make a number");
        if double == 0.0 || double.is_infinite() {
            return None;
        }
        let mut buffer = ryu_js::Buffer::new();
        let printed = buffer.format_finite(double).as_bytes();
        let printed = Literal::scan(printed).expect("a printed double is a number");
        let shift = self.take_digits(&printed);
        let exponent = printed.exponent.map_or(Some(0), Exponent::as_number);
        Some(exponent.expect("exponents of doubles are small numbers") + shift)
    }
}

impl<'a> Literal<'a> {
    fn scan(text: &'a [u8]) -> Option<Self> {
        let negative = text.first() == Some(&b'-');
        let mut at = usize::from(negative);
        let whole = leading_digits(&text[at..]);
        if whole.is_empty() || (whole[0] == b'0' && whole.len() > 1) {
            return None;
        }
        at += whole.len();
        let mut fraction: &[u8] = &[];
        if text.get(at) == Some(&b'.') {
            fraction = leading_digits(&text[at + 1..]);
            if fraction.is_empty() {
                return None;
            }
            at += 1 + fraction.len();
        }
        let mut exponent = None;
        if matches!(text.get(at), Some(b'e' | b'E')) {
            let sign = text.get(at + 1).filter(|byte| matches!(byte, b'+' | b'-'));
            at += 1 + usize::from(sign.is_some());
            let digits = leading_digits(&text[at..]);
            if digits.is_empty() {
                return None;
            }
            at += digits.len();
            let digits = without_leading_zeros(digits);
            exponent = Some(Exponent { negative: sign == Some(&b'-'), digits });
        }
        Some(Self { negative, whole, fraction, exponent, length: at })
    }

    fn is_integer(&self) -> bool {
        self.fraction.is_empty() && self.exponent.is_none()
    }

    /// Whether the literal is its own canonical text, as most are. It is a shortcut, and says no
    /// where it would have to look closer.
    fn is_canonical(&self) -> bool {
        match (self.whole, self.fraction) {
            _ if self.exponent.is_some() => false,
            (b"0", []) => !self.negative,
            (whole, []) => !whole.ends_with(b"000"),
            (b"0", [b'0', ..]) | (_, [.., b'0']) => false,
            (whole, fraction) => whole.len() + fraction.len() <= DIGITS_KEPT,
        }
    }
}

impl Exponent<'_> {
    /// The exponent, where it has few enough digits.
    fn as_number(self) -> Option<i64> {
        if self.digits.len() > EXPONENT_DIGITS {
            return None;
        }
        let size = self.digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Some(if self.negative { -size } else { size })
    }
}

fn write_integer(negative: bool, whole: &[u8], out: &mut Vec<u8>) {
    if whole == b"0" {
        return out.push(b'0');
    }
    if negative {
        out.push(b'-');
    }
    let zeros = trailing_zeros(whole);
    lay_out(&whole[..whole.len() - zeros], zeros as i64, out);
}

/// Writes `digits` x 10^`exponent`. The digits neither begin nor end with a zero.
fn lay_out(digits: &[u8], exponent: i64, out: &mut Vec<u8>) {
    let before_point = exponent + digits.len() as i64;
    if (0..=ZEROS.len() as i64).contains(&exponent) {
        out.extend_from_slice(digits);
        out.extend_from_slice(&ZEROS[..exponent as usize]);
    } else if exponent < 0 && before_point > 0 {
        let (before, after) = digits.split_at(before_point as usize);
        out.extend_from_slice(before);
        out.push(b'.');
        out.extend_from_slice(after);
    } else if before_point == 0 {
        out.extend_from_slice(b"0.");
        out.extend_from_slice(digits);
    } else {
        out.extend_from_slice(digits);
        out.push(b'e');
        out.extend_from_slice(exponent.to_string().as_bytes());
    }
}

/// Writes an exponent that does not fit a number, plus `shift`.
///
/// The exponent is larger than any shift that a body has room for, so that its sign stays.
fn write_far_exponent(exponent: Exponent<'_>, shift: i64, out: &mut Vec<u8>) {
    let mut digits = exponent.digits.to_vec();
    let mut carry = if exponent.negative { -shift } else { shift };
    for digit in digits.iter_mut().rev() {
        if carry == 0 {
            break;
        }
        let sum = i64::from(*digit - b'0') + carry;
        *digit = b'0' + sum.rem_euclid(10) as u8;
        carry = sum.div_euclid(10);
    }
    out.push(b'e');
    if exponent.negative {
        out.push(b'-');
    }
    if carry > 0 {
        out.extend_from_slice(carry.to_string().as_bytes());
        out.extend_from_slice(&digits);
    } else {
        out.extend_from_slice(without_leading_zeros(&digits));
    }
}

fn leading_digits(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    &digits[start..]
}

fn trailing_zeros(digits: &[u8]) -> usize {
    digits.iter().rev().take_while(|digit| **digit == b'0').count()
}

#[cfg(test)]
mod tests;
