//! The upstream: it executes what reaches it, or refuses, or its connection breaks.

use protocol::StoredResponse;
use protocol::execution::{Disposition, Event, Upstream};
use protocol::lease::Fence;

use super::config::Config;
use super::variant::Variant;
use super::world::{World, response};

/// The status of an execution's answer.
pub(crate) const DONE_STATUS: u16 = 201;

/// The status of an outcome that an operator found.
pub(crate) const OPERATOR_STATUS: u16 = 299;

/// The status with which the downstream's own key layer says "in use".
const IN_USE_STATUS: u16 = 409;

impl World {
    /// Whether the request of this gateway is on its way to the upstream.
    pub(crate) fn is_on_its_way(&self, config: &Config, gateway: usize) -> bool {
        self.gateways[gateway].request.is_some_and(|request| {
            !request.executed && self.now <= request.sent_at + config.max_execution
        })
    }

    /// Whether the downstream is at work for another attempt of the same generation.
    pub(crate) fn is_in_use(&self, gateway: usize) -> bool {
        let Some(own) = self.gateways[gateway].request else { return false };
        let generation = self.witness.generation_of(own.fence);
        self.gateways.iter().filter_map(|other| other.request).any(|other| {
            other.executed
                && other.fence != own.fence
                && self.witness.generation_of(other.fence) == generation
        })
    }

    /// The request reaches the upstream, which executes it.
    pub(crate) fn execute(&mut self, config: &Config, gateway: usize) {
        let Some(request) = &mut self.gateways[gateway].request else { return };
        request.executed = true;
        self.witness.executes(request.fence, config.takeover.is_some());
    }

    /// The answer to the executed request reaches the gateway.
    pub(crate) fn answer(&mut self, config: &Config, gateway: usize) {
        let Some(request) = self.gateways[gateway].request.take() else { return };
        let answer = self.answer_of(config, request.fence, gateway);
        self.gateways[gateway].kept = Some((request.fence, answer.clone()));
        let disposition = Disposition::Store(answer);
        let news = Upstream::Answered { status: DONE_STATUS, disposition };
        self.tell(config, gateway, Event::Upstream(news));
    }

    /// The upstream says that it has done nothing, and that a retry may.
    pub(crate) fn turn_away(&mut self, config: &Config, gateway: usize) {
        self.gateways[gateway].request = None;
        let news = Upstream::Answered { status: 503, disposition: Disposition::Retryable };
        self.tell(config, gateway, Event::Upstream(news));
    }

    /// The downstream says that it is at work for an earlier attempt.
    pub(crate) fn say_in_use(&mut self, config: &Config, gateway: usize) {
        let Some(request) = self.gateways[gateway].request.take() else { return };
        let answer = response(IN_USE_STATUS, 0);
        self.gateways[gateway].kept = Some((request.fence, answer.clone()));
        let hidden = config.breaks(Variant::InUseIsFinal);
        let status = if hidden { DONE_STATUS } else { IN_USE_STATUS };
        let news = Upstream::Answered { status, disposition: Disposition::Store(answer) };
        self.tell(config, gateway, Event::Upstream(news));
    }

    /// The connection ends without an answer. What is on its way may still be executed.
    pub(crate) fn break_connection(&mut self, config: &Config, gateway: usize) {
        if let Some(request) = &mut self.gateways[gateway].request {
            request.heard = false;
        }
        self.tell(config, gateway, Event::Upstream(Upstream::Broken));
    }

    /// An idempotent downstream gives every attempt of a generation the same answer; another one
    /// answers each execution by itself.
    fn answer_of(&self, config: &Config, fence: Fence, gateway: usize) -> StoredResponse {
        let body = if config.takeover.is_some() {
            self.witness.generation_of(fence).as_number() as u8 + 100
        } else {
            gateway as u8
        };
        response(DONE_STATUS, body)
    }
}
