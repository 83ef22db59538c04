//! Reads the commands of a script. What a line leaves out has a default.
//!
//! | command | words |
//! |---|---|
//! | `claim NAME by=X` | `print=p lease=10s max=30s keep=60s unknown=closed seen=INDEX@TIME operation=o` |
//! | `renew NAME fence=N` | `lease=10s token=granted` |
//! | `complete NAME fence=N` | `body=ok token=granted` |
//! | `release NAME fence=N`, `unknown NAME fence=N` | `token=granted` |
//! | `resolve NAME fence=N completed` or `… released` | `body=ok force=no by=ann reason=checked` |
//! | `forget NAME fence=N`, `revise NAME body=B`, `expire NAME` | `operation=o` in `revise` |
//!
//! `keep` may be `forever`; `unknown` may be `takeover:5m` (how long the downstream remembers);
//! `token` may be `forged`, or the number of the script's claim that brought it, which a command
//! needs in the entry of its grant. A claim has seen everything up to the entry before its own.

use std::collections::BTreeMap;

use protocol::command::{Claim, Grant, Verdict};
use protocol::record::{OnUnknown, Retention, Terms};
use protocol::response::{StoredBody, StoredResponse};
use protocol::{
    Basis, Command, Fence, Fingerprint, HolderId, Millis, RecordName, StoredResponse as Response,
    Timestamp, Token,
};

/// What a script has said so far.
#[derive(Default)]
pub(crate) struct Script {
    defaults: BTreeMap<String, String>,
    /// How many claims there were: each brings a token of its own.
    claims: u8,
    /// The token that came with each fence.
    tokens: BTreeMap<Fence, Token>,
}

impl Script {
    /// Takes the defaults of claims from a line `claims lease=5s …`.
    pub(crate) fn read_defaults(&mut self, line: &str) {
        if let Some(words) = line.strip_prefix("claims ") {
            self.defaults.extend(Words::of(words).named);
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "not understood: {line}");
        }
    }

    /// Remembers a grant, so that the script need not.
    pub(crate) fn granted(&mut self, grant: Grant) {
        self.tokens.insert(grant.fence, grant.token);
    }

    /// The command of a line; a claim whose sender had seen `seen`.
    pub(crate) fn command(&mut self, line: &str, seen: Basis) -> Command {
        let words = Words::of(line);
        let name = words.plain.get(1).unwrap_or_else(|| panic!("whose record? {line}"));
        let name = RecordName::from_bytes(name.as_bytes().to_vec());
        match words.plain[0].as_str() {
            "claim" => Command::Claim(self.claim(name, words, seen)),
            "renew" => {
                let lease = span(words.or("lease", "10s"));
                Command::Renew { name, grant: self.grant(&words), lease }
            }
            "complete" => {
                Command::Complete { name, grant: self.grant(&words), response: words.response() }
            }
            "release" => Command::Release { name, grant: self.grant(&words) },
            "unknown" => Command::Unknown { name, grant: self.grant(&words) },
            "resolve" => Command::Resolve {
                name,
                fence: words.fence(),
                verdict: match words.plain[2].as_str() {
                    "completed" => Verdict::Completed(words.response()),
                    "released" => Verdict::Released,
                    other => panic!("completed or released, not {other}"),
                },
                by: words.or("by", "ann").to_owned(),
                reason: words.or("reason", "checked").to_owned(),
                force: words.or("force", "no") == "yes",
            },
            "forget" => Command::Forget { name, fence: words.fence() },
            "revise" => Command::Revise {
                name,
                operation: words.named.get("operation").cloned(),
                response: words.response(),
            },
            "expire" => Command::Expire { name },
            other => panic!("no such command: {other}"),
        }
    }

    fn claim(&mut self, name: RecordName, mut words: Words, seen: Basis) -> Claim {
        for (word, value) in &self.defaults {
            words.named.entry(word.clone()).or_insert_with(|| value.clone());
        }
        self.claims += 1;
        let seen = match words.named.get("seen") {
            None => seen,
            Some(text) => {
                let (index, time) = text.split_once('@').expect("seen is INDEX@TIME");
                let time = time_of(time);
                Basis { index: index.parse().expect("an index"), time, ..seen }
            }
        };
        Claim {
            operation: words.named.get("operation").cloned(),
            name,
            holder: HolderId::of(b"script", words.named["by"].as_bytes()),
            seen,
            print: Fingerprint { version: 1, digest: digest(words.or("print", "p")) }.into(),
            lease: span(words.or("lease", "10s")),
            terms: words.terms(),
            token: Token::new([self.claims; 16]),
        }
    }

    /// The grant that a line names: the token is the one that came with the fence.
    fn grant(&self, words: &Words) -> Grant {
        let fence = words.fence();
        let forged = Token::new([0; 16]);
        let token = match words.or("token", "granted") {
            "granted" => self.tokens.get(&fence).copied().unwrap_or(forged),
            "forged" => forged,
            number => Token::new([number.parse().expect("granted, forged or a number"); 16]),
        };
        Grant { fence, token }
    }
}

/// A line, taken apart: `resolve a released force=yes`.
struct Words {
    plain: Vec<String>,
    named: BTreeMap<String, String>,
}

impl Words {
    fn of(line: &str) -> Self {
        let mut words = Self { plain: Vec::new(), named: BTreeMap::new() };
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => {
                    words.named.insert(name.to_owned(), value.to_owned());
                }
                None => words.plain.push(word.to_owned()),
            }
        }
        words
    }

    fn or<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.named.get(name).map_or(default, String::as_str)
    }

    fn fence(&self) -> Fence {
        Fence::new(0, self.named["fence"].parse().expect("a fence"))
    }

    fn response(&self) -> Response {
        let body = StoredBody::Whole(self.or("body", "ok").as_bytes().to_vec());
        StoredResponse { status: 201, headers: Vec::new(), body }
    }

    fn terms(&self) -> Terms {
        Terms {
            retention: match self.or("keep", "60s") {
                "forever" => Retention::Forever,
                text => Retention::For(span(text)),
            },
            on_unknown: match self.or("unknown", "closed") {
                "closed" => OnUnknown::FailClosed,
                text => {
                    let text = text.strip_prefix("takeover:").expect("closed or takeover:TIME");
                    OnUnknown::Takeover { downstream_retention: span(text) }
                }
            },
            max_execution: span(self.or("max", "30s")),
        }
    }
}

/// The stamp of the entry that a line begins.
pub(crate) fn stamp(line: &str) -> Option<Timestamp> {
    line.strip_prefix('@').map(time_of)
}

/// Whether the line is a command of an entry.
pub(crate) fn is_command(line: &str) -> bool {
    line.starts_with(|first: char| first.is_ascii_lowercase())
}

fn time_of(text: &str) -> Timestamp {
    Timestamp::ZERO.plus(span(text))
}

fn span(text: &str) -> Millis {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_lowercase());
    let factor = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        other => panic!("no such unit of time: {other}"),
    };
    Millis::new(digits.parse::<u64>().expect("a number of milliseconds, seconds, …") * factor)
}

fn digest(text: &str) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[..text.len()].copy_from_slice(text.as_bytes());
    digest
}
