//! One side's part of the conversation: every message goes through the transcript that seals it.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::message::{Hello, Opening, Verdict};
use super::seal::{ClusterKey, Role, Transcript};
use super::{ShakeError, Unfit};
use crate::config::NodeId;
use crate::transport::{Cause, PeerHello, Refusal};

/// The longest message before the connection is trusted: a verdict with its reason.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;

/// One side of the conversation.
pub(super) struct Talk<'a, S> {
    stream: &'a mut S,
    role: Role,
    transcript: Transcript<'a>,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Talk<'a, S> {
    pub(super) fn new(key: &'a ClusterKey, stream: &'a mut S, role: Role) -> Self {
        Self { stream, role, transcript: Transcript::new(key) }
    }

    pub(super) async fn say(&mut self, message: &[u8]) -> Result<(), ShakeError> {
        self.transcript.note(self.role, message);
        self.write(message).await
    }

    pub(super) async fn say_sealed(&mut self, message: &[u8]) -> Result<(), ShakeError> {
        let seal = self.transcript.seal(self.role, message);
        self.transcript.note(self.role, message);
        self.write(&[message, &seal].concat()).await
    }

    /// Verdicts cross on the way, so neither is part of what the other one seals.
    pub(super) async fn say_verdict(
        &mut self,
        ours: &Result<PeerHello, Unfit>,
    ) -> Result<(), ShakeError> {
        let message = Verdict::of(ours.as_ref().err().map(|unfit| &unfit.reason)).encode();
        let seal = self.transcript.seal(self.role, &message);
        self.write(&[&message[..], &seal].concat()).await
    }

    pub(super) async fn hear_opening(&mut self) -> Result<Opening, ShakeError> {
        let message = self.read().await?;
        let opening = Opening::decode(&message).ok_or(ShakeError::Stranger("no opening"))?;
        self.transcript.note(self.role.other(), &message);
        Ok(opening)
    }

    pub(super) async fn hear_hello(&mut self) -> Result<Hello, ShakeError> {
        let message = self.hear_sealed().await?;
        self.transcript.note(self.role.other(), &message);
        Hello::decode(&message).ok_or(ShakeError::Stranger("no hello"))
    }

    /// Hears the other side's verdict, and returns the peer when both have none but good things to
    /// say. The own refusal comes first: its reason is the one to act on here.
    pub(super) async fn settle(
        &mut self,
        from: NodeId,
        ours: Result<PeerHello, Unfit>,
    ) -> Result<PeerHello, ShakeError> {
        let heard = self.hear_sealed().await;
        let peer = ours.map_err(|Unfit { cause, reason }| {
            ShakeError::Refused(Refusal { peer: from, by_us: true, cause, reason })
        })?;
        let theirs = Verdict::decode(&heard?).ok_or(ShakeError::Stranger("no verdict"))?;
        match theirs.refusal() {
            None => Ok(peer),
            Some(reason) => {
                let cause = Cause::Other;
                Err(ShakeError::Refused(Refusal { peer: from, by_us: false, cause, reason }))
            }
        }
    }

    async fn hear_sealed(&mut self) -> Result<Vec<u8>, ShakeError> {
        let sealed = self.read().await?;
        let (message, seal) =
            sealed.split_last_chunk().ok_or(ShakeError::Stranger("message without a seal"))?;
        if !self.transcript.verify(self.role.other(), message, seal) {
            return Err(ShakeError::Stranger("proof of another secret or another cluster"));
        }
        Ok(message.to_vec())
    }

    async fn write(&mut self, message: &[u8]) -> Result<(), ShakeError> {
        let length = u32::try_from(message.len()).expect("messages are short").to_le_bytes();
        self.stream.write_all(&[&length, message].concat()).await.map_err(closed)?;
        self.stream.flush().await.map_err(closed)
    }

    /// Reads one message. The announced length is checked before any memory is set aside for it.
    async fn read(&mut self) -> Result<Vec<u8>, ShakeError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await.map_err(closed)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(ShakeError::Stranger("message too long for a handshake"));
        }
        let mut message = vec![0; length];
        self.stream.read_exact(&mut message).await.map_err(closed)?;
        Ok(message)
    }
}

/// How a connection ends that the other side has closed.
fn closed(error: io::Error) -> ShakeError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => ShakeError::Closed,
        _ => ShakeError::Io(error),
    }
}
