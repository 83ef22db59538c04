//! Fingerprints of random JSON documents: every spelling of a document is equal, every change of
//! it is not, and what counts as JSON is what another parser says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use protocol::fingerprint::{OutlineKey, Print, Rules, Subject};
use protocol::{Fingerprint, RecordName};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A document, free of any spelling.
#[derive(Clone, Debug)]
enum Json {
    Null,
    Bool(bool),
    /// An exact integer.
    Integer(i128),
    /// A number that is written with fraction or exponent.
    Double(f64),
    /// A number beyond doubles: digits that end with no zero, times ten to the power of so much.
    Beyond(u64, i64),
    String(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

#[test]
fn every_spelling_of_a_document_is_equal_and_every_change_is_not() {
    let mut rng = StdRng::seed_from_u64(0x0ce6a7e);
    for round in 0..2_000 {
        let document = random_json(&mut rng, 5);
        let once = spelled(&mut rng, &document);
        let again = spelled(&mut rng, &document);
        let fingerprint = of(&once);
        assert_eq!(fingerprint, of(&again), "round {round}:\n{once}\n{again}");
        assert!(has_canonical_form(once.as_bytes()), "round {round}: {once}");

        let mut changed = document.clone();
        change(&mut rng, &mut changed);
        let changed = spelled(&mut rng, &changed);
        assert_ne!(fingerprint, of(&changed), "round {round}:\n{once}\n{changed}");
    }
}

/// Documents of a few short words, so that about as many pairs are equal as are not.
#[test]
fn documents_are_equal_where_another_parser_reads_them_so() {
    let mut rng = StdRng::seed_from_u64(0xe90a1);
    let mut count = [0; 2];
    for _ in 0..20_000 {
        let [one, other] = [(); 2].map(|()| {
            let document = small_json(&mut rng, 2);
            spelled(&mut rng, &document)
        });
        let values = [&one, &other].map(|text| -> serde_json::Value {
            serde_json::from_str(text).expect("what was spelled is JSON")
        });
        let equal = values[0] == values[1];
        assert_eq!(of(&one) == of(&other), equal, "{one}\n{other}");
        count[usize::from(equal)] += 1;
    }
    assert!(count.iter().all(|count| *count > 500), "{count:?} pairs of either kind");
}

/// Spoils documents here and there; whether they still are JSON is judged by another parser.
#[test]
fn what_is_json_is_what_another_parser_accepts() {
    const SPOILERS: &[u8] = b"{}[]:,\"\\ \t\n\0-+.eE0159atfnu/\x7f\x80\xc3\xa9\xed\xff";
    let mut rng = StdRng::seed_from_u64(0x5b011);
    let mut count = [0; 2];
    for _ in 0..30_000 {
        let document = random_json(&mut rng, 3);
        let mut text = spelled(&mut rng, &document).into_bytes();
        for _ in 0..rng.random_range(0..3) {
            let at = rng.random_range(0..text.len());
            let spoiler = SPOILERS[rng.random_range(0..SPOILERS.len())];
            match rng.random_range(0..4) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, spoiler),
                2 => text[at] = spoiler,
                _ => text[at] ^= 1 << rng.random_range(0..8),
            }
            if text.is_empty() {
                text.push(spoiler);
            }
        }
        let accepted = serde_json::from_slice::<OneMeaning>(&text).is_ok();
        assert_eq!(has_canonical_form(&text), accepted, "{}", String::from_utf8_lossy(&text));
        count[usize::from(accepted)] += 1;
    }
    assert!(count.iter().all(|count| *count > 2_000), "{count:?} documents of either kind");
}

#[test]
fn large_objects_are_put_in_order() {
    let mut rng = StdRng::seed_from_u64(0x1a49e);
    for prefix in ["", "a prefix that all names share "] {
        let mut members: Vec<_> =
            (0..5_000).map(|nth| format!("\"{prefix}{nth}\":{{\"b\":{nth},\"a\":[]}}")).collect();
        let in_order = format!("{{{}}}", members.join(","));
        members.shuffle(&mut rng);
        let shuffled = format!("{{{}}}", members.join(" ,\n"));
        assert_eq!(of(&in_order), of(&shuffled));

        members[0] = members[1].clone();
        let repeated = format!("{{{}}}", members.join(","));
        assert!(!has_canonical_form(repeated.as_bytes()));
    }
}

fn of(text: &str) -> Fingerprint {
    of_bytes(text.as_bytes())
}

fn of_bytes(text: &[u8]) -> Fingerprint {
    let key = OutlineKey::new(&[7; 32], &RecordName::from_bytes(b"name".to_vec()));
    Print::of(&Subject::Payload(text), &Rules::DEFAULT, &key).fingerprint
}

/// Whether white space behind the document goes unnoticed, as it does where it is read as JSON.
fn has_canonical_form(text: &[u8]) -> bool {
    of_bytes(text) == of_bytes(&[text, b" "].concat())
}

fn random_json(rng: &mut StdRng, depth: usize) -> Json {
    match rng.random_range(0..if depth == 0 { 7 } else { 11 }) {
        0 => Json::Null,
        1 => Json::Bool(rng.random()),
        2 => Json::Integer(rng.random_range(-2_000..2_000)),
        3 => Json::Integer(rng.random::<i128>() >> rng.random_range(0..120)),
        4 => Json::Double(random_double(rng)),
        5 => {
            let digits = rng.random_range(1..1_000_000) * 10 + rng.random_range(1..10);
            let exponent = rng.random_range(350..1_000_000_000);
            Json::Beyond(digits, if rng.random() { exponent } else { -exponent })
        }
        6 => Json::String(random_string(rng)),
        7 | 8 => {
            let length = rng.random_range(0..5);
            Json::Array((0..length).map(|_| random_json(rng, depth - 1)).collect())
        }
        _ => {
            let length = rng.random_range(0..6);
            let member = |_| (random_string(rng), random_json(rng, depth - 1));
            Json::Object((0..length).map(member).collect())
        }
    }
}

fn random_double(rng: &mut StdRng) -> f64 {
    let double = match rng.random_range(0..3) {
        0 => f64::from(rng.random_range(-100_000..100_000)) / 100.0,
        1 => rng.random_range(-1e17..1e17),
        _ => f64::from_bits(rng.random()),
    };
    // The largest double has no neighbour that a change could turn it into.
    if double.abs() < f64::MAX { double } else { 0.5 }
}

fn random_string(rng: &mut StdRng) -> String {
    const CHARACTERS: [char; 20] = [
        'a',
        'b',
        'z',
        'A',
        '0',
        ' ',
        '"',
        '\\',
        '/',
        '\0',
        '\u{1f}',
        '\n',
        '\t',
        '\u{7f}',
        'é',
        '\u{301}',
        '€',
        '\u{ffff}',
        '😀',
        '\u{10ffff}',
    ];
    let longest = if rng.random() { 3 } else { 13 };
    let length = rng.random_range(0..=longest);
    (0..length).map(|_| CHARACTERS[rng.random_range(0..CHARACTERS.len())]).collect()
}

fn small_json(rng: &mut StdRng, depth: usize) -> Json {
    match rng.random_range(0..if depth == 0 { 3 } else { 8 }) {
        0 => Json::Null,
        1 => Json::Bool(rng.random()),
        2 => Json::String("a".repeat(rng.random_range(0..2))),
        3 => Json::Array((0..rng.random_range(0..3)).map(|_| small_json(rng, depth - 1)).collect()),
        _ => {
            let name = |rng: &mut StdRng| "ab".repeat(rng.random_range(0..2));
            let length = rng.random_range(0..3);
            Json::Object((0..length).map(|_| (name(rng), small_json(rng, depth - 1))).collect())
        }
    }
}

/// Makes one leaf, or one container, say something else.
fn change(rng: &mut StdRng, json: &mut Json) {
    match json {
        Json::Null => *json = Json::Bool(false),
        Json::Bool(value) => *value = !*value,
        Json::Integer(value) => *value ^= 1,
        Json::Double(value) => *value = value.next_up(),
        Json::Beyond(_, exponent) => *exponent += exponent.signum(),
        Json::String(text) => text.push('x'),
        Json::Array(elements) => {
            let length = elements.len();
            match elements.get_mut(rng.random_range(0..=length)) {
                Some(element) => change(rng, element),
                None => elements.push(Json::Null),
            }
        }
        Json::Object(members) => {
            let nth = rng.random_range(0..=members.len());
            let Some(name) = members.keys().nth(nth).cloned() else {
                let name = members.keys().map(String::as_str).collect::<String>() + "new";
                members.insert(name, Json::Null);
                return;
            };
            match rng.random_range(0..3) {
                0 => drop(members.remove(&name)),
                1 => {
                    let member = members.remove(&name).expect("the name was found");
                    members.insert(name + "\u{1}renamed", member);
                }
                _ => change(rng, members.get_mut(&name).expect("the name was found")),
            }
        }
    }
}

/// One of the many texts that say what `json` says.
fn spelled(rng: &mut StdRng, json: &Json) -> String {
    let mut out = String::new();
    spell(rng, json, &mut out);
    out
}

fn spell(rng: &mut StdRng, json: &Json, out: &mut String) {
    space(rng, out);
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(&value.to_string()),
        Json::Integer(value) => out.push_str(&spell_integer(rng, *value)),
        Json::Double(value) => out.push_str(&spell_double(rng, *value)),
        Json::Beyond(digits, exponent) => out.push_str(&spell_decimal(rng, *digits, *exponent)),
        Json::String(text) => spell_string(rng, text, out),
        Json::Array(elements) => {
            out.push('[');
            for (nth, element) in elements.iter().enumerate() {
                out.push_str(if nth > 0 { "," } else { "" });
                spell(rng, element, out);
            }
            space(rng, out);
            out.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.shuffle(rng);
            out.push('{');
            for (nth, (name, member)) in members.into_iter().enumerate() {
                out.push_str(if nth > 0 { "," } else { "" });
                space(rng, out);
                spell_string(rng, name, out);
                space(rng, out);
                out.push(':');
                spell(rng, member, out);
            }
            space(rng, out);
            out.push('}');
        }
    }
    space(rng, out);
}

fn space(rng: &mut StdRng, out: &mut String) {
    const SPACES: [&str; 8] = ["", "", "", " ", "\n", "\t", "\r\n", "  "];
    out.push_str(SPACES[rng.random_range(0..SPACES.len())]);
}

/// An integer that a double holds may be written as one.
fn spell_integer(rng: &mut StdRng, value: i128) -> String {
    const DOUBLES_HOLD: i128 = 1 << 53;
    match rng.random_range(0..5) {
        0 if value.abs() <= DOUBLES_HOLD => format!("{value}.0"),
        1 if value.abs() <= DOUBLES_HOLD => format!("{value}.000E+0"),
        2 if value.abs() <= DOUBLES_HOLD => spell_double(rng, value as f64),
        3 if value == 0 => "-0".to_owned(),
        4 if (1..=DOUBLES_HOLD).contains(&value.abs()) => format!("{value}000e-3"),
        _ => value.to_string(),
    }
}

fn spell_double(rng: &mut StdRng, value: f64) -> String {
    let text = match rng.random_range(0..5) {
        0 => format!("{value:e}"),
        1 => format!("{value:.17e}"),
        2 => format!("{value:.30E}"),
        3 => format!("{value:.400}"),
        _ => format!("{value}"),
    };
    // Fixed notation with 400 places keeps 17 digits only of what is not tiny.
    let text = if text.parse() == Ok(value) { text } else { format!("{value:e}") };
    if text.contains(['.', 'e', 'E']) { text } else { text + "e+00" }
}

fn spell_decimal(rng: &mut StdRng, digits: u64, exponent: i64) -> String {
    match rng.random_range(0..4) {
        0 => format!("{digits}e{exponent}"),
        1 => format!("{digits}000E{}", exponent - 3),
        2 => format!("0.00{digits:020}0e{}", exponent + 22),
        _ => format!("{}.{}e{:+}", digits / 10, digits % 10, exponent + 1),
    }
}

fn spell_string(rng: &mut StdRng, text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let must = matches!(character, '"' | '\\' | '\0'..='\u{1f}');
        let short = "\"\\/\u{8}\u{c}\n\r\t".find(character).map(|nth| &"\"\\/bfnrt"[nth..=nth]);
        match (rng.random_range(0..4), short) {
            (0 | 1, Some(short)) => {
                out.push('\\');
                out.push_str(short);
            }
            (2.., _) if !must => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let lower = rng.random();
                    let digits = if lower { format!("{unit:04x}") } else { format!("{unit:04X}") };
                    out.push_str("\\u");
                    out.push_str(&digits);
                }
            }
        }
    }
    out.push('"');
}

/// Reads any JSON document in which no object has two members of one name.
struct OneMeaning;

impl<'de> Deserialize<'de> for OneMeaning {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for OneMeaning {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON document")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self, A::Error> {
        while elements.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    /// Numbers that no machine type holds come here too, as a map of one member.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("two members of one name"));
            }
            members.next_value::<Self>()?;
        }
        Ok(self)
    }
}
