//! The layouts of what goes between routers, for tests and fuzzing.

use super::applied::Confirmation;
use super::list::{ForwardList, ListAnswer};
use super::{Answer, Forward, ForwardRead, ReadAnswer};
use crate::codec;
use crate::config::NodeId;
use crate::layouts::Layout;
use crate::shard::NotMoved;

pub(crate) fn layouts() -> Vec<Layout> {
    vec![
        Layout::of::<Forward, { codec::FORWARD }>("command on its way"),
        Layout::of::<Answer, { codec::ANSWER }>("answer to a command"),
        Layout::of::<ForwardRead, { codec::FORWARD_READ }>("read on its way"),
        Layout::of::<ReadAnswer, { codec::READ_ANSWER }>("answer to a read"),
        Layout::of::<ForwardList, { codec::FORWARD_LIST }>("list on its way"),
        Layout::of::<ListAnswer, { codec::LIST_ANSWER }>("answer to a list"),
        Layout::of::<Confirmation, { codec::CONFIRMED }>("what a leader confirms"),
        Layout::of::<NodeId, { codec::HAND_OVER }>("who is to lead"),
        Layout::of::<Result<(), NotMoved>, { codec::HANDED_OVER }>("whether a leadership moved"),
    ]
}
