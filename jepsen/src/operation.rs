//! What clients ask and what they are told, as it stands in a history.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Everything that names a record: two calls about one key have equal names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    /// Who owns the key.
    pub tenant: String,
    /// To whom of the tenant's customers it belongs; empty where the operation has none.
    pub account: String,
    /// The operation's name in the policy.
    pub operation: String,
    /// The key.
    pub key: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tenant, account, operation, key } = self;
        write!(f, "{tenant}/{account}/{operation}/{key}")
    }
}

/// One call of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The node that is asked, counted from 1.
    pub node: u8,
    /// The record that it is about.
    pub name: Name,
    /// What is asked.
    pub verb: Verb,
    /// Whether it is one of the reads after every fault has been healed.
    pub last: bool,
}

/// What a call asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// A request through a gateway.
    Post {
        /// Which of the bodies that differ; equal variants are the same request.
        variant: u32,
        /// How the upstream should behave if it is called for this request.
        how: How,
    },
    /// `POST /v1/claims`.
    Claim {
        /// The attempt id.
        attempt: String,
        /// Which of the payloads that differ.
        variant: u32,
        /// The lease that is asked for, in milliseconds.
        lease_ms: u64,
    },
    /// `POST /v1/claims/renew`.
    Renew {
        /// The grant's fence.
        fence: u64,
        /// The lease that is asked for, in milliseconds.
        lease_ms: u64,
    },
    /// `POST /v1/claims/complete`.
    Complete {
        /// The grant's fence.
        fence: u64,
        /// What tells this outcome from any other.
        nonce: String,
    },
    /// `POST /v1/claims/release`.
    Release {
        /// The grant's fence.
        fence: u64,
    },
    /// `POST /v1/claims/unknown`.
    Unknown {
        /// The grant's fence.
        fence: u64,
    },
    /// `GET /v1/claims`.
    Read,
    /// An operator settles an indeterminate record.
    Resolve {
        /// The fence that the operator saw.
        fence: u64,
        /// The outcome's nonce; `None` releases the key.
        nonce: Option<String>,
        /// Whether the waiting time is skipped.
        force: bool,
    },
}

impl Verb {
    /// Whether the call goes through a gateway, and not to the claims or admin API.
    pub fn is_post(&self) -> bool {
        matches!(self, Self::Post { .. })
    }

    /// Which of the bodies that differ a claiming call brings.
    pub fn variant(&self) -> Option<u32> {
        match self {
            Self::Post { variant, .. } | Self::Claim { variant, .. } => Some(*variant),
            _ => None,
        }
    }
}

/// How the upstream behaves when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// It executes and answers 201 after so many milliseconds.
    After(u64),
    /// It executes and answers with this status.
    Status(u16),
    /// It executes and never answers.
    Hang,
    /// It closes the connection and executes nothing.
    ResetBefore,
    /// It executes and closes the connection.
    ResetAfter,
}

/// What an execution comes to, when its whole answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// A final answer: it is stored, and the key never runs again.
    Final,
    /// An answer that says "later": the key is free again.
    Retryable,
    /// No answer, or one that tells nothing: the key must not run again by itself.
    Lost,
}

impl How {
    /// What an execution comes to.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::After(_) => Verdict::Final,
            Self::Status(401 | 407 | 421 | 425 | 429 | 503) => Verdict::Retryable,
            Self::Status(408 | 502 | 504) => Verdict::Lost,
            Self::Status(status) if status > 500 => Verdict::Lost,
            Self::Status(_) => Verdict::Final,
            Self::Hang | Self::ResetBefore | Self::ResetAfter => Verdict::Lost,
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(millis) => write!(f, "after-{millis}"),
            Self::Status(status) => write!(f, "status-{status}"),
            Self::Hang => f.write_str("hang"),
            Self::ResetBefore => f.write_str("reset-before"),
            Self::ResetAfter => f.write_str("reset-after"),
        }
    }
}

impl FromStr for How {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |rest: &str| rest.parse().map_err(drop);
        match text {
            "hang" => Ok(Self::Hang),
            "reset-before" => Ok(Self::ResetBefore),
            "reset-after" => Ok(Self::ResetAfter),
            _ => match text.split_once('-') {
                Some(("after", rest)) => Ok(Self::After(number(rest)?)),
                Some(("status", rest)) => Ok(Self::Status(rest.parse().map_err(drop)?)),
                _ => Err(()),
            },
        }
    }
}

/// What a client was told. Whatever does not apply is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The status; 0 when no whole answer came.
    pub status: u16,
    /// The code of a problem.
    pub code: String,
    /// What a problem says about the execution.
    pub executed: String,
    /// The record's state, where the answer names one.
    pub state: String,
    /// Whether it is marked as a replay.
    pub replayed: bool,
    /// The fence of a grant, or of a record that was read.
    pub fence: u64,
    /// The nonce of the outcome.
    pub nonce: String,
    /// Digest of what a replay must repeat: status, kept headers and body.
    pub digest: String,
    /// Why no whole answer came.
    pub error: String,
}

impl Answer {
    /// Whether it holds an outcome: a stored response, or one that was just made.
    pub fn has_outcome(&self) -> bool {
        !self.nonce.is_empty()
    }

    /// Whether the call was refused because nothing could be decided then.
    pub fn is_unavailable(&self) -> bool {
        self.status == 0
            || matches!(self.code.as_str(), "shard-unavailable" | "config-mismatch" | "internal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_are_read_as_they_are_written() {
        for how in [How::After(20), How::Status(503), How::Hang, How::ResetBefore, How::ResetAfter]
        {
            assert_eq!(how.to_string().parse(), Ok(how));
        }
        assert!("later".parse::<How>().is_err() && "after-x".parse::<How>().is_err());
    }

    #[test]
    fn only_answers_that_say_later_free_the_key() {
        assert_eq!(How::Status(503).verdict(), Verdict::Retryable);
        assert_eq!(How::Status(422).verdict(), Verdict::Final);
        assert_eq!(How::Status(504).verdict(), Verdict::Lost);
        assert_eq!(How::ResetAfter.verdict(), Verdict::Lost);
    }
}
