//! The replies owed for a log entry, each answered exactly once.

use protocol::Decided;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Answer;
use crate::codec;
use crate::error::SubmitError;
use crate::transport::Reply;

/// Whom a command's answer goes to.
pub(crate) enum Respond {
    /// A caller on this node.
    Local(oneshot::Sender<Answer>),
    /// The node that forwarded the command.
    Peer(Reply),
}

impl Respond {
    /// Answers. A caller that is gone misses nothing: what was decided is in the log.
    pub(crate) fn send(self, answer: Answer) {
        match self {
            Self::Local(caller) => drop(caller.send(answer)),
            Self::Peer(reply) => reply.send(codec::encode(codec::ANSWER, &answer).into()),
        }
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Local(caller) => caller.is_closed(),
            Self::Peer(reply) => reply.is_closed(),
        }
    }
}

/// Who waits for the commands of one log entry, in their order.
///
/// Dropped without an answer, it tells everybody that the answer is lost: the entry may be in the
/// log.
#[derive(Default)]
pub(super) struct Waiters {
    owed: Vec<(Respond, OwnedSemaphorePermit)>,
    /// Commands for which nobody waits, after those for which somebody does.
    unowed: usize,
}

impl Waiters {
    /// For an entry of `commands` commands that the leader proposed by itself.
    pub(super) fn unowed(commands: usize) -> Self {
        Self { owed: Vec::new(), unowed: commands }
    }

    pub(super) fn push(&mut self, respond: Respond, weight: OwnedSemaphorePermit) {
        self.owed.push((respond, weight));
    }

    /// Hands the decisions out, or says that they are lost.
    pub(super) fn answer(mut self, decided: Option<Vec<Decided>>) {
        let Some(decided) = decided else { return };
        let commands = self.owed.len() + self.unowed;
        assert_eq!(decided.len(), commands, "one decision for each command of the entry");
        for ((respond, _), decided) in self.owed.drain(..).zip(decided) {
            respond.send(Ok(decided));
        }
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        for (respond, _) in self.owed.drain(..) {
            respond.send(Err(SubmitError::Lost));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol::{Basis, Outcome};
    use tokio::sync::Semaphore;
    use tokio::sync::oneshot::Receiver;

    use super::*;

    fn waiting(count: usize) -> (Waiters, Vec<Receiver<Answer>>, Arc<Semaphore>) {
        let admission = Arc::new(Semaphore::new(count));
        let mut waiters = Waiters::default();
        let callers = (0..count)
            .map(|_| {
                let (sender, receiver) = oneshot::channel();
                let weight = admission.clone().try_acquire_owned().unwrap();
                waiters.push(Respond::Local(sender), weight);
                receiver
            })
            .collect();
        (waiters, callers, admission)
    }

    fn decided(index: u64) -> Decided {
        Decided { outcome: Outcome::Nothing, basis: Basis { index, ..Basis::default() } }
    }

    #[test]
    fn each_caller_gets_the_answer_to_its_own_command() {
        let (waiters, callers, admission) = waiting(3);
        waiters.answer(Some((0..3).map(decided).collect()));
        for (index, mut caller) in callers.into_iter().enumerate() {
            assert_eq!(caller.try_recv().unwrap(), Ok(decided(index as u64)));
        }
        assert_eq!(admission.available_permits(), 3, "what was answered weighs nothing");
    }

    #[test]
    fn an_entry_whose_fate_is_not_known_is_lost_to_everybody() {
        let (waiters, mut callers, _) = waiting(2);
        waiters.answer(None);
        for caller in &mut callers {
            assert_eq!(caller.try_recv().unwrap(), Err(SubmitError::Lost));
        }
        let (waiters, mut callers, admission) = waiting(1);
        drop(waiters);
        assert_eq!(callers[0].try_recv().unwrap(), Err(SubmitError::Lost));
        assert_eq!(admission.available_permits(), 1);
    }

    #[test]
    fn entries_that_nobody_waits_for_need_nobody() {
        Waiters::unowed(2).answer(Some(vec![decided(0), decided(1)]));
    }
}
