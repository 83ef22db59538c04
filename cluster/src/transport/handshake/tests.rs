use std::cell::RefCell;
use std::sync::Arc;

use tokio::io::{
    AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, copy, duplex, split,
};
use tokio::time::{Instant, sleep};

use super::talk::MESSAGE_BYTES_MAX;
use super::*;
use crate::clock::SimulatedClock;
use crate::transport::fixtures::{self, Desk, secret};

type Shaken = Result<PeerHello, ShakeError>;

/// One process that shakes hands.
struct Process {
    identity: Identity,
    clock: SimulatedClock,
    guard: Arc<ClockGuard>,
    desk: Arc<Desk>,
}

impl Process {
    /// Of a node in a cluster of 1, 2 and 3.
    fn new(id: u64) -> Self {
        Self::with(id, |_| {})
    }

    fn with(id: u64, alter: impl FnOnce(&mut NodeConfig)) -> Self {
        let nowhere = ([127, 0, 0, 1], 1).into();
        let mut config = fixtures::config(id, &[(1, nowhere), (2, nowhere), (3, nowhere)]);
        alter(&mut config);
        let clock = SimulatedClock::new(0);
        Self {
            identity: Identity::new(&config, [id as u8; 16]),
            guard: fixtures::guard(&clock, id),
            clock,
            desk: Desk::new(),
        }
    }

    /// The stream is dropped with the last word, as a connection would be.
    async fn dial(&self, to: u64, mut stream: DuplexStream) -> Shaken {
        self.identity.dial(&mut stream, NodeId(to), &self.guard, &*self.desk).await
    }

    async fn accept(&self, mut stream: DuplexStream) -> Shaken {
        self.identity.accept(&mut stream, &self.guard, &*self.desk).await
    }
}

/// Lets `dialer` dial node `to`, where `acceptor` answers.
async fn shake(dialer: &Process, to: u64, acceptor: &Process) -> (Shaken, Shaken) {
    let (one, two) = duplex(4096);
    tokio::join!(dialer.dial(to, one), acceptor.accept(two))
}

/// Lets the two talk through somebody in the middle, who passes on what each says as `alter` leaves
/// it, one byte after the other, until it returns `None` for that side.
async fn shake_through(
    dialer: &Process,
    acceptor: &Process,
    alter: impl FnMut(Role, usize, u8) -> Option<u8>,
) -> (Shaken, Shaken) {
    let alter = RefCell::new(alter);
    let pass = async |from: ReadHalf<DuplexStream>, to: WriteHalf<DuplexStream>, role| {
        let (mut from, mut to) = (from, to);
        let mut position = 0;
        while let Ok(byte) = from.read_u8().await {
            let altered = (alter.borrow_mut())(role, position, byte);
            let Some(byte) = altered else { break };
            if to.write_u8(byte).await.is_err() {
                break;
            }
            position += 1;
        }
        let _ = to.shutdown().await;
    };
    let (one, near) = duplex(4096);
    let (far, two) = duplex(4096);
    let ((near_read, near_write), (far_read, far_write)) = (split(near), split(far));
    let (dialed, accepted, (), ()) = tokio::join!(
        dialer.dial(2, one),
        acceptor.accept(two),
        pass(near_read, far_write, Role::Dialer),
        pass(far_read, near_write, Role::Acceptor),
    );
    (dialed, accepted)
}

/// What each of two nodes says to the other when all goes well.
async fn recorded(dialer: &Process, acceptor: &Process) -> (Vec<u8>, Vec<u8>) {
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let (dialed, accepted) = shake_through(dialer, acceptor, |role, _, byte| {
        if role == Role::Dialer { &mut there } else { &mut back }.push(byte);
        Some(byte)
    })
    .await;
    dialed.unwrap();
    accepted.unwrap();
    (there, back)
}

#[tokio::test(start_paused = true)]
async fn two_nodes_of_one_cluster_meet_and_learn_each_others_clocks() {
    let (one, two) = (Process::new(1), Process::new(2));
    two.clock.jump_to(300);
    let (dialed, accepted) = shake(&one, 2, &two).await;
    assert_eq!(dialed.unwrap(), PeerHello { node: NodeId(2), instance: [2; 16] });
    assert_eq!(accepted.unwrap(), PeerHello { node: NodeId(1), instance: [1; 16] });
    assert_eq!(one.guard.estimate(NodeId(2)), two.guard.wall());
    assert_eq!(two.guard.estimate(NodeId(1)), one.guard.wall());
}

#[tokio::test(start_paused = true)]
async fn another_secret_or_another_cluster_gets_nothing_but_a_closed_connection() {
    let strangers = [
        Process::with(1, |config| config.secret = secret(2)),
        Process::with(1, |config| config.cluster = "orders".to_owned()),
    ];
    for stranger in strangers {
        let (dialed, accepted) = shake(&stranger, 2, &Process::new(2)).await;
        assert!(matches!(dialed, Err(ShakeError::Spurned)), "{dialed:?}");
        assert!(matches!(accepted, Err(ShakeError::Stranger(_))), "{accepted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acceptor_seals_nothing_before_the_dialer_has_proved_itself() {
    let (mut attacker, theirs) = duplex(4096);
    let acceptor = Process::new(2);
    let attack = async {
        let mut talk = Vec::new();
        let opening = Opening::new(NodeId(1), NodeId(2)).encode();
        attacker.write_u32_le(opening.len() as u32).await.unwrap();
        attacker.write_all(&opening).await.unwrap();
        attacker.write_u32_le(94).await.unwrap();
        attacker.write_all(&[0; 94]).await.unwrap();
        attacker.read_to_end(&mut talk).await.unwrap();
        talk
    };
    let (accepted, heard) = tokio::join!(acceptor.accept(theirs), attack);
    assert!(matches!(accepted, Err(ShakeError::Stranger(_))), "{accepted:?}");
    assert_eq!(heard.len(), 4 + 56, "an opening and not one byte more");
}

#[tokio::test(start_paused = true)]
async fn an_impostor_who_answers_in_a_peers_place_is_a_stranger() {
    let impostor = Process::with(2, |config| config.secret = secret(2));
    let (mut theirs, stream) = duplex(4096);
    let answer = async {
        // He skips the check of the dialer's proof and goes on with his own.
        let mut said = [0; 4 + 56];
        theirs.read_exact(&mut said).await.unwrap();
        let mut transcript = seal::Transcript::new(&impostor.identity.key);
        let opening = Opening::new(NodeId(2), NodeId(1)).encode();
        let hello = impostor.identity.hello(&impostor.guard).encode();
        transcript.note(Role::Dialer, &said[4..]);
        transcript.note(Role::Acceptor, &opening);
        let sealed = [&hello[..], &transcript.seal(Role::Acceptor, &hello)].concat();
        for message in [&opening, &sealed] {
            theirs.write_u32_le(message.len() as u32).await.unwrap();
            theirs.write_all(message).await.unwrap();
        }
        let _ = theirs.read_to_end(&mut Vec::new()).await;
    };
    let (dialed, ()) = tokio::join!(async { Process::new(1).dial(2, stream).await }, answer);
    assert!(matches!(dialed, Err(ShakeError::Stranger(_))), "{dialed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dialer_whose_words_are_reflected_believes_none_of_them() {
    let (mirror, stream) = duplex(4096);
    let reflect = async {
        let (mut read, mut write) = split(mirror);
        let _ = copy(&mut read, &mut write).await;
    };
    let dialed = tokio::select! {
        dialed = async { Process::new(1).dial(2, stream).await } => dialed,
        () = reflect => unreachable!("the dialer ends first"),
    };
    assert!(matches!(dialed, Err(ShakeError::Stranger(_))), "{dialed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_led_to_itself_does_not_take_itself_for_a_peer() {
    let (one, same) = (Process::new(1), Process::new(1));
    for ended in <[Shaken; 2]>::from(shake(&one, 2, &same).await) {
        let Err(ShakeError::Refused(refusal)) = ended else { panic!("{ended:?}") };
        assert_eq!(refusal.reason, "two processes are node 1; give each its own [node] id");
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorded_conversation_cannot_be_replayed_to_either_side() {
    let (one, two) = (Process::new(1), Process::new(2));
    let (there, back) = recorded(&one, &two).await;

    let (mut attacker, theirs) = duplex(4096);
    attacker.write_all(&there).await.unwrap();
    let accepted = two.accept(theirs).await;
    assert!(matches!(accepted, Err(ShakeError::Stranger(_))), "{accepted:?}");

    let (mut attacker, theirs) = duplex(4096);
    attacker.write_all(&back).await.unwrap();
    let dialed = one.dial(2, theirs).await;
    assert!(matches!(dialed, Err(ShakeError::Stranger(_))), "{dialed:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_single_byte_is_altered_on_the_way_its_hearer_lets_nobody_in() {
    let (one, two) = (Process::new(1), Process::new(2));
    let (there, back) = recorded(&one, &two).await;
    for (speaker, length) in [(Role::Dialer, there.len()), (Role::Acceptor, back.len())] {
        for target in 0..length {
            let flip = |role, position, byte: u8| {
                Some(if (role, position) == (speaker, target) { byte ^ 0x40 } else { byte })
            };
            let (dialed, accepted) = shake_through(&one, &two, flip).await;
            let hearer = if speaker == Role::Dialer { accepted } else { dialed };
            assert!(hearer.is_err(), "byte {target} of what the {speaker:?} said");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wherever_one_side_falls_silent_its_hearer_lets_nobody_in() {
    let (one, two) = (Process::new(1), Process::new(2));
    let (there, back) = recorded(&one, &two).await;
    for (speaker, length) in [(Role::Dialer, there.len()), (Role::Acceptor, back.len())] {
        for end in 0..length {
            let cut = |role, position, byte| (role != speaker || position < end).then_some(byte);
            let (dialed, accepted) = shake_through(&one, &two, cut).await;
            let hearer = if speaker == Role::Dialer { accepted } else { dialed };
            let ended = matches!(hearer, Err(ShakeError::Closed | ShakeError::Spurned));
            assert!(ended, "{speaker:?} cut at {end}: {hearer:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_oversized_message_is_refused_by_its_announcement() {
    for length in [MESSAGE_BYTES_MAX as u32 + 1, u32::MAX, u32::from_le_bytes(*b"GET ")] {
        let (mut attacker, theirs) = duplex(4096);
        attacker.write_u32_le(length).await.unwrap();
        let started = Instant::now();
        let accepted = Process::new(2).accept(theirs).await;
        assert!(matches!(accepted, Err(ShakeError::Stranger(_))), "{accepted:?}");
        assert_eq!(started.elapsed(), Duration::ZERO, "nothing more was waited for");
    }
}

#[tokio::test(start_paused = true)]
async fn who_dribbles_single_bytes_is_cut_off_in_time() {
    let (mut attacker, theirs) = duplex(4096);
    let dribble = async move {
        attacker.write_u32_le(56).await.unwrap();
        loop {
            sleep(Duration::from_secs(1)).await;
            if attacker.write_u8(b'o').await.is_err() {
                return;
            }
        }
    };
    let started = Instant::now();
    let acceptor = Process::new(2);
    let (accepted, ()) = tokio::join!(acceptor.accept(theirs), dribble);
    assert!(matches!(accepted, Err(ShakeError::TimedOut)), "{accepted:?}");
    assert!(started.elapsed() <= TIMEOUT + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_dialer_does_not_wait_for_ever_either() {
    let (_silent, stream) = duplex(4096);
    let dialed = Process::new(1).dial(2, stream).await;
    assert!(matches!(dialed, Err(ShakeError::TimedOut)), "{dialed:?}");
}

#[tokio::test(start_paused = true)]
async fn holders_of_the_secret_that_do_not_fit_learn_why_on_both_sides() {
    let mut future = Process::new(2);
    future.identity.versions = Versions { oldest: 7, newest: 9 };
    let remedy = "upgrade one release at a time, every node before the next";
    expect_refusals(
        (&Process::new(1), &future),
        (true, &format!("node 1 speaks wire versions 1 to 1 and node 2 7 to 9; {remedy}")),
        (true, &format!("node 2 speaks wire versions 7 to 9 and node 1 1 to 1; {remedy}")),
    )
    .await;
    let remedy = "name records differently; give all nodes the same policy file";
    expect_refusals(
        (&Process::with(1, |config| config.naming = [8; 32]), &Process::new(2)),
        (true, &format!("the policies of node 1 and node 2 {remedy}")),
        (true, &format!("the policies of node 2 and node 1 {remedy}")),
    )
    .await;
    let remedy = "[cluster] shards must be the same everywhere";
    expect_refusals(
        (&Process::with(1, |config| config.shards = 32), &Process::new(2)),
        (true, &format!("node 1 has 32 shards and node 2 16; {remedy}")),
        (true, &format!("node 2 has 16 shards and node 1 32; {remedy}")),
    )
    .await;
    let remedy = "correct the addresses in [cluster] peers";
    expect_refusals(
        (&Process::new(1), &Process::new(3)),
        (true, &format!("node 1 dialed node 2 and node 3 answered; {remedy}")),
        (true, &format!("node 1 dialed node 2 and node 3 answered; {remedy}")),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_side_that_refuses_tells_the_other_its_reason() {
    let reason =
        "node 9 is not in [cluster] peers of node 2; add it there, or correct its [node] id";
    let unknown = Process::new(9);
    expect_refusals((&unknown, &Process::new(2)), (false, reason), (true, reason)).await;

    let reason = "another data directory; use the old one";
    let choosy = Process::new(2);
    choosy.desk.refuse([1; 16]);
    expect_refusals((&Process::new(1), &choosy), (false, reason), (true, reason)).await;

    let choosy = Process::new(1);
    choosy.desk.refuse([2; 16]);
    expect_refusals((&choosy, &Process::new(2)), (true, reason), (false, reason)).await;
}

/// Lets the two meet, where node 2 is dialed. Each expects a refusal: whether it is its own, and
/// the reason.
async fn expect_refusals(
    (dialer, acceptor): (&Process, &Process),
    at_dialer: (bool, &str),
    at_acceptor: (bool, &str),
) {
    let (dialed, accepted) = shake(dialer, 2, acceptor).await;
    for (ended, peer, (by_us, reason)) in
        [(dialed, acceptor.identity.id, at_dialer), (accepted, dialer.identity.id, at_acceptor)]
    {
        let Err(ShakeError::Refused(refusal)) = ended else { panic!("{reason}: {ended:?}") };
        let naming = reason.contains("name records differently");
        let cause = if naming { Cause::Naming } else { Cause::Other };
        assert_eq!(refusal, Refusal { peer, by_us, cause, reason: reason.to_owned() });
    }
}
