//! The bounded queue of one session: one slot for each kind of message, the newest of a kind
//! replacing the one that still waits. A slow reader therefore costs eight messages at most.

use lanekeeper_model::Advisory;
use lanekeeper_proto::limits::PROBE_LEASES_MAX;
use lanekeeper_proto::message::{
    ConfigPush, FromServer, Goodbye, Overrides, ProbeLease, ReportAck, Welcome,
};

/// Messages that wait for room on the stream.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    welcome: Option<Welcome>,
    overrides: Option<Overrides>,
    advisories: Option<Vec<Advisory>>,
    leases: Option<ProbeLease>,
    drain: Option<bool>,
    push: Option<ConfigPush>,
    ack: Option<ReportAck>,
    goodbye: Option<Goodbye>,
}

impl Outgoing {
    /// Adds a message, in place of a waiting one of its kind.
    pub(crate) fn put(&mut self, message: FromServer) {
        match message {
            FromServer::Welcome(welcome) => self.welcome = Some(welcome),
            FromServer::ConfigPush(push) => self.push = Some(push),
            FromServer::Overrides(overrides) => self.overrides = Some(overrides),
            FromServer::ProbeLeases(lease) => self.add_leases(lease),
            FromServer::Advisories(advisories) => self.advisories = Some(advisories),
            FromServer::Drain(active) => self.drain = Some(active),
            FromServer::ReportAck(ack) => self.acknowledge(ack),
            FromServer::Goodbye(goodbye) => self.goodbye = Some(goodbye),
        }
    }

    /// Answers about probes are kept beside those that wait, up to what one message holds: an agent
    /// that misses one probes by itself.
    fn add_leases(&mut self, lease: ProbeLease) {
        let waiting = self.leases.get_or_insert_default();
        waiting.answers.extend(lease.answers);
        waiting.verdicts.extend(lease.verdicts);
        waiting.answers.truncate(PROBE_LEASES_MAX);
        waiting.verdicts.truncate(PROBE_LEASES_MAX);
    }

    /// An acknowledgement covers all before it, so a repeated report must not hide a newer; what a
    /// waiting one asks for is still asked for.
    fn acknowledge(&mut self, ack: ReportAck) {
        let Some(waiting) = &mut self.ack else {
            self.ack = Some(ack);
            return;
        };
        waiting.want_dense |= ack.want_dense;
        waiting.next_interval = ack.next_interval.or(waiting.next_interval);
        waiting.transitions_stored = waiting.transitions_stored.max(ack.transitions_stored);
        if ack.seq >= waiting.seq {
            waiting.seq = ack.seq;
            waiting.refused = ack.refused;
        }
    }

    /// Takes the next message: the greeting first, the goodbye last, and acknowledgements and
    /// orders before a document that may take long to write.
    pub(crate) fn take(&mut self) -> Option<FromServer> {
        let welcome = self.welcome.take().map(FromServer::Welcome);
        welcome
            .or_else(|| self.ack.take().map(FromServer::ReportAck))
            .or_else(|| self.overrides.take().map(FromServer::Overrides))
            .or_else(|| self.leases.take().map(FromServer::ProbeLeases))
            .or_else(|| self.advisories.take().map(FromServer::Advisories))
            .or_else(|| self.drain.take().map(FromServer::Drain))
            .or_else(|| self.push.take().map(FromServer::ConfigPush))
            .or_else(|| self.goodbye.take().map(FromServer::Goodbye))
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.welcome.is_none()
            && self.overrides.is_none()
            && self.leases.is_none()
            && self.advisories.is_none()
            && self.drain.is_none()
            && self.push.is_none()
            && self.ack.is_none()
            && self.goodbye.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(seq: u64) -> FromServer {
        FromServer::ReportAck(ReportAck {
            seq,
            want_dense: false,
            next_interval: None,
            refused: None,
            transitions_stored: 0,
        })
    }

    fn push(nonce: u64) -> FromServer {
        FromServer::ConfigPush(ConfigPush {
            nonce,
            revision: nonce,
            document: bytes::Bytes::new(),
            hash: String::new(),
        })
    }

    #[test]
    fn what_a_waiting_acknowledgement_asks_for_is_not_lost() {
        let mut outgoing = Outgoing::default();
        let asking = ReportAck {
            seq: 1,
            want_dense: true,
            next_interval: Some(std::time::Duration::from_secs(12)),
            refused: Some("report.totals: is missing".to_owned()),
            transitions_stored: 7,
        };
        outgoing.put(FromServer::ReportAck(asking.clone()));
        outgoing.put(ack(2));
        let both = ReportAck {
            seq: 2,
            refused: None,
            ..asking
        };
        assert_eq!(outgoing.take(), Some(FromServer::ReportAck(both)));
    }

    #[test]
    fn waiting_message_is_replaced_by_a_newer_one_of_its_kind() {
        let mut outgoing = Outgoing::default();
        for seq in 1..=1000 {
            outgoing.put(ack(seq));
            outgoing.put(push(seq));
        }
        outgoing.put(ack(7));
        assert_eq!(outgoing.take(), Some(ack(1000)));
        assert_eq!(outgoing.take(), Some(push(1000)));
        assert!(outgoing.is_empty());
        assert_eq!(outgoing.take(), None);
    }
}
