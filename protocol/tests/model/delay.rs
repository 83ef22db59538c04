//! What happens at once, unless it takes its time.
//!
//! Time goes on only when nothing is left that happens at once. So a run is small as long as few
//! things may be delayed, and still shows each of them arriving at any later moment.

use super::config::Config;
use super::world::{Address, World};

/// Something that happens at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// A request to the shard.
    Parcel(Address),
    /// A reply that travels by itself.
    Reply { gateway: usize, number: u32 },
    /// A connection to the upstream.
    Connection(usize),
    /// A request to the upstream, or its answer.
    Request(usize),
}

impl World {
    /// The first thing that happens at once.
    pub(crate) fn pending(&self, config: &Config) -> Option<Pending> {
        self.pending_parcel().or_else(|| {
            (0..self.gateways.len()).find_map(|gateway| self.pending_at(config, gateway))
        })
    }

    /// Something takes its time.
    pub(crate) fn delay(&mut self, pending: Pending) {
        let delayed = match pending {
            Pending::Parcel(address) => {
                self.wire.get_mut(&address).map(|parcel| &mut parcel.delayed)
            }
            Pending::Reply { gateway, number } => {
                self.gateways[gateway].replies.get_mut(&number).map(|reply| &mut reply.delayed)
            }
            Pending::Connection(gateway) => {
                self.gateways[gateway].connecting.as_mut().map(|connecting| &mut connecting.delayed)
            }
            Pending::Request(gateway) => {
                self.gateways[gateway].request.as_mut().map(|request| &mut request.delayed)
            }
        };
        *delayed.expect("what is pending is there") = true;
    }

    fn pending_parcel(&self) -> Option<Pending> {
        self.wire
            .iter()
            .find(|(_, parcel)| !parcel.arrived && !parcel.delayed)
            .map(|(address, _)| Pending::Parcel(*address))
    }

    fn pending_at(&self, config: &Config, place: usize) -> Option<Pending> {
        let gateway = &self.gateways[place];
        if let Some((number, _)) = gateway.replies.iter().find(|(_, reply)| !reply.delayed) {
            return Some(Pending::Reply { gateway: place, number: *number });
        }
        if gateway.connecting.is_some_and(|connecting| !connecting.delayed) {
            return Some(Pending::Connection(place));
        }
        let request = gateway.request.filter(|request| !request.delayed)?;
        (request.heard || self.is_on_its_way(config, place)).then_some(Pending::Request(place))
    }
}
