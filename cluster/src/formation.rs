//! How the first members become a cluster, and why a wiped one does not come back.
//!
//! The lowest-numbered first member forms the cluster, and only once *every* configured first
//! member has said that it belongs to none. A majority would not do: two wiped nodes must not form
//! a new cluster beside the third. What was formed is a list of data directories, each told from
//! any other by the random instance id it was made with. Every member keeps the list, durably,
//! before any shard begins; afterwards a node whose directory is not on the list is refused at the
//! handshake.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::codec;
use crate::config::NodeId;
use crate::error::StartError;
use crate::placement::ShardId;
use crate::raft::Replica;
use crate::random;
use crate::router;
use crate::storage::identity::{Directory, Formation};
use crate::transport::{PeerHello, Request, Transport};

/// Asks a node what it belongs to.
pub(crate) const STATUS: u8 = router::READ + 1;
/// Tells a node what it belongs to from now on.
pub(crate) const FORM: u8 = router::READ + 2;

/// How long a peer may take to answer, and how long to wait before everybody is asked again.
const TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// How many rounds pass between two log lines that say who is waited for: about ten seconds.
const ROUNDS_PER_LINE: u32 = 100;

/// What a node says of itself before there is a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Status {
    instance: [u8; 16],
    formation: Option<Formation>,
}

/// A node's part in the formation of its cluster.
pub(crate) struct Founder {
    node: NodeId,
    members: Vec<NodeId>,
    directory: Mutex<Directory>,
}

/// Why the formation cannot go on by itself.
#[derive(Debug, thiserror::Error)]
enum FormError {
    #[error("node {0} does not answer yet")]
    Unanswered(NodeId),
    #[error(transparent)]
    Fatal(#[from] StartError),
}

impl Founder {
    /// `members` are the configured first members, this node among them.
    pub(crate) fn new(node: NodeId, mut members: Vec<NodeId>, directory: Directory) -> Arc<Self> {
        members.sort_unstable();
        Arc::new(Self { node, members, directory: Mutex::new(directory) })
    }

    fn status(&self) -> Status {
        let directory = self.directory.lock().expect("no holder panics");
        Status { instance: directory.instance(), formation: directory.formation().cloned() }
    }

    /// Whether this node belongs to a cluster.
    pub(crate) fn is_formed(&self) -> bool {
        self.status().formation.is_some()
    }

    /// Tells this node's data directory from any other.
    pub(crate) fn instance(&self) -> [u8; 16] {
        self.status().instance
    }

    /// Whether a peer is the member it says it is; a gateway is none.
    ///
    /// # Errors
    /// What its operator should do, when its data directory is not the one that joined this
    /// cluster.
    pub(crate) fn admit(&self, hello: &PeerHello) -> Result<(), String> {
        if hello.node.is_gateway() {
            // It keeps nothing that could be an older state.
            return Ok(());
        }
        let Some(formation) = self.status().formation else { return Ok(()) };
        match formation.members.get(&hello.node) {
            Some(instance) if *instance == hello.instance => Ok(()),
            Some(_) => Err(format!(
                "the data directory of node {} is not the one that joined this cluster, so it may \
                 have forgotten what it promised; bring the old directory back, or remove the node \
                 from the cluster and add it again under a new id",
                hello.node
            )),
            None => Err(format!("node {} is not a member of this cluster", hello.node)),
        }
    }

    /// Answers a peer that asks what this node belongs to.
    pub(crate) fn serve_status(&self) -> Bytes {
        codec::encode(codec::FORM_STATUS, &self.status()).into()
    }

    /// Takes what the founding member says this node belongs to; `None` when it cannot be so.
    pub(crate) fn serve_form(&self, from: NodeId, body: &[u8]) -> Option<Bytes> {
        let formation: Formation = codec::decode(codec::FORM, body).ok()?;
        let own = self.status();
        let fits = formation.members.get(&self.node) == Some(&own.instance)
            && Some(&from) == self.members.first()
            && own.formation.as_ref().is_none_or(|known| *known == formation);
        if !fits {
            tracing::warn!(from = from.0, "formation refused: it is not for this data directory");
            return None;
        }
        if own.formation.is_none()
            && let Err(error) = self.keep(&formation)
        {
            tracing::error!(%error, "formation cannot be kept");
            return None;
        }
        Some(self.serve_status())
    }

    fn keep(&self, formation: &Formation) -> Result<(), StartError> {
        self.directory.lock().expect("no holder panics").set_formation(formation.clone())
    }

    /// Forms the cluster if that is this node's task and not done yet. Returns when every shard has
    /// begun, or at once on the other members. Waits for members that do not answer, for as long as
    /// it takes.
    ///
    /// # Errors
    /// When this node cannot belong to the cluster that the others know.
    pub(crate) async fn form(
        &self,
        transport: &dyn Transport,
        replicas: &[Replica],
    ) -> Result<(), StartError> {
        let done = self.directory.lock().expect("no holder panics").is_initialised();
        if Some(&self.node) != self.members.first() || done {
            return Ok(());
        }
        let mut round = 0;
        loop {
            match self.try_form(transport, replicas).await {
                Ok(()) => return Ok(()),
                Err(FormError::Fatal(error)) => return Err(error),
                Err(FormError::Unanswered(node)) if round % ROUNDS_PER_LINE == 0 => {
                    tracing::info!(node = node.0, "waiting for a first member of the cluster");
                }
                Err(FormError::Unanswered(_)) => {}
            }
            round += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_form(
        &self,
        transport: &dyn Transport,
        replicas: &[Replica],
    ) -> Result<(), FormError> {
        let mut instances = BTreeMap::from([(self.node, self.instance())]);
        let mut known = self.status().formation;
        for member in self.others() {
            let status = ask(transport, member, STATUS, Bytes::new()).await?;
            instances.insert(member, status.instance);
            match (&known, status.formation) {
                (_, None) => {}
                (Some(own), Some(theirs)) if *own == theirs => {}
                // A cluster that others belong to and this founding member does not: it was wiped.
                (_, Some(_)) => return Err(self.wiped(member).into()),
            }
        }
        let formation = match known.take() {
            Some(formation) => formation,
            None => Formation { cluster: random::draw(), members: instances.clone() },
        };
        if formation.members != instances {
            let replaced = instances.iter().find(|(id, i)| formation.members.get(id) != Some(*i));
            let node = replaced.map_or(self.node, |(id, _)| *id);
            return Err(self.wiped(node).into());
        }
        // Durable here first: whatever happens next, this node goes on with this formation and
        // never makes another.
        self.keep(&formation)?;
        let body = Bytes::from(codec::encode(codec::FORM, &formation));
        for member in self.others() {
            ask(transport, member, FORM, body.clone()).await?;
        }
        for replica in replicas {
            replica.initialize(&self.members).await?;
        }
        self.directory.lock().expect("no holder panics").set_initialised()?;
        tracing::info!(members = self.members.len(), "cluster formed");
        Ok(())
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().copied().filter(|member| *member != self.node)
    }

    fn wiped(&self, member: NodeId) -> StartError {
        StartError::Refused {
            node: member.0,
            reason: "the data directories of the first members are not of one cluster; bring the \
                     missing directory back, or begin again with empty ones on every member"
                .to_owned(),
        }
    }
}

async fn ask(
    transport: &dyn Transport,
    member: NodeId,
    kind: u8,
    body: Bytes,
) -> Result<Status, FormError> {
    let request = Request { kind, shard: ShardId(0), body };
    let reply = transport.call(member, request, TIMEOUT).await;
    let reply = reply.map_err(|_| FormError::Unanswered(member))?;
    codec::decode(codec::FORM_STATUS, &reply).map_err(|_| FormError::Unanswered(member))
}
