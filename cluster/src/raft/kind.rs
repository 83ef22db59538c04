//! What peers ask of each other's replicas: the kinds of requests that this folder sends and
//! serves.

/// A heartbeat or a lone append: answered as openraft's append response.
pub(crate) const APPEND: u8 = 1;
/// One of a stream of appends: served in the order of arrival, answered as a stream result.
pub(crate) const STREAM_APPEND: u8 = 2;
/// A request for a vote.
pub(crate) const VOTE: u8 = 3;
/// A question whether a vote would be granted.
pub(crate) const PRE_VOTE: u8 = 4;
/// The leader asks a follower to take over.
pub(crate) const TRANSFER: u8 = 5;
/// A chunk of a snapshot.
pub(crate) const SNAPSHOT_CHUNK: u8 = 6;
/// The end of a snapshot.
pub(crate) const SNAPSHOT_FINISH: u8 = 7;

/// The first kind that is not this folder's.
pub(crate) const NEXT: u8 = 16;
