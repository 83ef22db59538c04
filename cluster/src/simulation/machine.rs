//! A simulated machine: its tasks, which end and stand still together, and its randomness.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng, TryRng};
use tokio::task::{AbortHandle, JoinHandle};

use crate::clock::{Clock, SimulatedClock};
use crate::placement::ShardId;

thread_local! {
    /// The machine whose task is being polled.
    static CURRENT: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

thread_local! {
    /// How often tasks of machines were polled on this thread, and a digest of when.
    static STEPS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// How many steps machines of this thread have taken since this was asked last, and a digest of
/// their times. Equal for two runs that did the same, to the last poll.
pub fn take_steps() -> (u64, u64) {
    STEPS.take()
}

fn count_step(at: Duration) {
    let (steps, digest) = STEPS.get();
    let digest = (digest ^ at.as_nanos() as u64).wrapping_mul(0x0000_0100_0000_01b3);
    STEPS.set((steps + 1, digest.rotate_left(17)));
}

/// The handles of tasks that ended are dropped when there are more than this.
const HANDLES_MAX: usize = 256;

/// The terms in which the replicas of a node told peers that they voted. They outlive the machine.
pub(super) type Promises = Arc<Mutex<BTreeMap<ShardId, u64>>>;

/// A machine from its start to its end. Clones are the same machine.
#[derive(Clone)]
pub struct Machine(Arc<Inner>);

struct Inner {
    clock: SimulatedClock,
    promises: Promises,
    random: Mutex<StdRng>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tasks: Vec<AbortHandle>,
    ended: bool,
    stands_still: bool,
    /// Who would have been polled meanwhile.
    waiting: Vec<Waker>,
}

/// A task of a machine.
pub(crate) struct Hosted<F> {
    machine: Machine,
    task: Pin<Box<F>>,
}

/// Draws from the machine that the drawer runs on; from the thread's generator where there is none.
pub(crate) struct Dice(Option<Machine>);

impl Machine {
    /// A machine whose randomness follows from `seed`.
    pub(super) fn new(seed: u64, clock: SimulatedClock, promises: Promises) -> Self {
        let random = Mutex::new(StdRng::seed_from_u64(seed));
        Self(Arc::new(Inner { clock, promises, random, state: Mutex::default() }))
    }

    /// The machine that the caller runs on.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Writes down that a replica told a peer that it voted in this term.
    pub(crate) fn promise(&self, shard: ShardId, term: u64) {
        let mut promises = self.0.promises.lock().expect("nothing panics while it holds them");
        let promised = promises.entry(shard).or_default();
        *promised = term.max(*promised);
    }

    /// The machine's clock.
    pub(crate) fn clock(&self) -> &SimulatedClock {
        &self.0.clock
    }

    /// Runs a task on the machine. What it spawns through this crate runs there too.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let handle = tokio::spawn(self.hosted(task));
        self.keep(handle.abort_handle());
        handle
    }

    /// The task as one of this machine; whoever spawns it must [`keep`](Self::keep) its handle.
    pub(crate) fn hosted<F: Future>(&self, task: F) -> Hosted<F> {
        Hosted { machine: self.clone(), task: Box::pin(task) }
    }

    /// Has a task end with the machine.
    pub(crate) fn keep(&self, task: AbortHandle) {
        let mut state = self.lock();
        if state.ended {
            drop(state);
            return task.abort();
        }
        if state.tasks.len() >= HANDLES_MAX {
            state.tasks.retain(|task| !task.is_finished());
        }
        state.tasks.push(task);
    }

    /// Ends the machine: nothing on it runs any more.
    pub fn end(&self) {
        let tasks = {
            let mut state = self.lock();
            state.ended = true;
            std::mem::take(&mut state.tasks)
        };
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Whether the machine has ended.
    pub fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Stands everything still, as SIGSTOP does; time goes on.
    pub fn stand_still(&self) {
        self.lock().stands_still = true;
    }

    /// Lets everything go on.
    pub fn go_on(&self) {
        let waiting = {
            let mut state = self.lock();
            state.stands_still = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether a task may be polled now; otherwise it is woken when it may.
    fn may_run(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        if state.stands_still && !state.ended {
            state.waiting.push(waker.clone());
        }
        !state.stands_still && !state.ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("nothing panics while it holds the machine")
    }
}

impl<F: Future> Future for Hosted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if !this.machine.may_run(context.waker()) {
            return Poll::Pending;
        }
        let outer = CURRENT.replace(Some(this.machine.clone()));
        count_step(this.machine.0.clock.boot());
        let polled = this.task.as_mut().poll(context);
        CURRENT.set(outer);
        polled
    }
}

impl Dice {
    pub(crate) fn of_this_machine() -> Self {
        Self(Machine::current())
    }

    fn roll<T>(&self, roll: impl FnOnce(&mut dyn Rng) -> T) -> T {
        match &self.0 {
            Some(Machine(inner)) => {
                roll(&mut *inner.random.lock().expect("drawing does not panic"))
            }
            None => roll(&mut rand::rng()),
        }
    }
}

impl TryRng for Dice {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.roll(|random| random.next_u32()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.roll(|random| random.next_u64()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.roll(|random| random.fill_bytes(bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::{Instant, sleep};

    use super::*;

    fn machine(seed: u64) -> Machine {
        Machine::new(seed, SimulatedClock::new(0), Promises::default())
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_task_spawns_ends_with_its_machine() {
        let machine = machine(1);
        let (sender, receiver) = oneshot::channel::<()>();
        let grandchild = async move {
            crate::task::spawn(async move {
                let _sender = sender;
                std::future::pending::<()>().await;
            });
        };
        machine.spawn(grandchild).await.unwrap();
        machine.end();
        assert!(receiver.await.is_err());
        let late = machine.spawn(async {}).await;
        assert!(late.unwrap_err().is_cancelled(), "nothing begins on a machine that has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_while_a_machine_stands_still() {
        let machine = machine(1);
        let begin = Instant::now();
        let task = machine.spawn(async move {
            sleep(Duration::from_secs(1)).await;
            begin.elapsed()
        });
        tokio::task::yield_now().await;
        machine.stand_still();
        sleep(Duration::from_secs(5)).await;
        assert!(!task.is_finished());
        machine.go_on();
        assert_eq!(task.await.unwrap().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_seed_draws_the_same_numbers_twice() {
        async fn drawn(seed: u64) -> Vec<u64> {
            let draw = async { (0..4).map(|_| crate::random::draw()).collect() };
            machine(seed).spawn(draw).await.unwrap()
        }
        assert_eq!(drawn(7).await, drawn(7).await);
        assert_ne!(drawn(7).await, drawn(8).await);
    }
}
