//! Small histories for the checkers' own tests.

use crate::checker::{Case, Done};
use crate::client::Certainty;
use crate::operation::{Answer, Call, How, Name, Verb};
use crate::upstream::Execution;

/// A second, in the microseconds of a history.
pub(crate) const S: u64 = 1_000_000;

pub(crate) fn name(operation: &str, key: &str) -> Name {
    Name {
        tenant: "acme".to_owned(),
        account: String::new(),
        operation: operation.to_owned(),
        key: key.to_owned(),
    }
}

/// A request through a gateway.
pub(crate) fn post(variant: u32) -> Verb {
    Verb::Post { variant, how: How::After(0) }
}

/// A claim.
pub(crate) fn claim(attempt: &str, variant: u32) -> Verb {
    Verb::Claim { attempt: attempt.to_owned(), variant, lease_ms: 2000 }
}

/// A complete.
pub(crate) fn complete(fence: u64, nonce: &str) -> Verb {
    Verb::Complete { fence, nonce: nonce.to_owned() }
}

/// An answer with an outcome.
pub(crate) fn outcome(nonce: &str) -> (Certainty, Answer) {
    let (nonce, digest) = (nonce.to_owned(), format!("digest of {nonce}"));
    (Certainty::Ok, Answer { status: 201, nonce, digest, ..Answer::default() })
}

/// A grant.
pub(crate) fn granted(fence: u64) -> (Certainty, Answer) {
    (Certainty::Ok, Answer { status: 201, state: "claimed".to_owned(), fence, ..Answer::default() })
}

/// A plain success of the claims API.
pub(crate) fn fine(state: &str) -> (Certainty, Answer) {
    (Certainty::Ok, Answer { status: 200, state: state.to_owned(), ..Answer::default() })
}

/// A refusal.
pub(crate) fn refused(status: u16, code: &str) -> (Certainty, Answer) {
    (Certainty::Fail, Answer { status, code: code.to_owned(), ..Answer::default() })
}

/// No answer.
pub(crate) fn lost() -> (Certainty, Answer) {
    (Certainty::Info, Answer { error: "lost".to_owned(), ..Answer::default() })
}

impl Case {
    /// Adds a call at node 1 from `invoked` to `returned`, numbered by its place from 1.
    pub(crate) fn call(
        mut self,
        name: &Name,
        verb: Verb,
        (invoked, returned): (u64, u64),
        (end, answer): (Certainty, Answer),
    ) -> Self {
        let id = self.calls.len() as u64 + 1;
        let call = Call { node: 1, name: name.clone(), verb, last: false };
        self.calls.push(Done { id, process: 1, call, invoked, returned, end, answer });
        self
    }

    /// The last call was one of the final reads, at this node.
    pub(crate) fn last(mut self, node: u8) -> Self {
        let done = self.calls.last_mut().unwrap();
        (done.call.last, done.call.node) = (true, node);
        self
    }

    /// Adds an execution for the call of this number.
    pub(crate) fn executed_for(
        mut self,
        call: u64,
        at: u64,
        fence: u64,
        nonce: &str,
        how: How,
    ) -> Self {
        let name = self.calls[call as usize - 1].call.name.clone();
        let nonce = nonce.to_owned();
        let refused = false;
        self.executions.push(Execution { at, name, fence, attempt: 1, nonce, call, how, refused });
        self
    }
}
