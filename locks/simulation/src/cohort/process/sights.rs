//! The sights of a cohort, and the return of its contenders.

use zk_recipes_protocol::cohort::MemberState;

use super::super::Sight;
use super::{NodeMaker, Passed, Phase, Process};

impl Process {
    /// Lets the contenders that are done and come again do so.
    pub(in super::super) fn return_members(&mut self) {
        for (i, member) in self.members.iter_mut().enumerate() {
            if member.phase == Phase::Done && member.returns > 0 {
                member.returns -= 1;
                member.phase = Phase::Away;
                self.arrived.retain(|other| *other != i);
            }
        }
    }

    pub(in super::super) fn visits(&self) -> u64 {
        let left = self.members.iter().map(|member| u64::from(member.returns) + u64::from(member.phase != Phase::Done));
        left.sum()
    }

    pub(in super::super) fn note_sights(&mut self) {
        let handovers = (0..self.members.len()).filter_map(|i| match self.state(i) {
            Some(MemberState::Holds { handovers }) => Some(handovers),
            _ => None,
        });
        let handovers = handovers.max().unwrap_or_default();
        let inside = self.members.iter().filter(|member| matches!(member.phase, Phase::In { .. })).count();
        let is_waiting = (0..self.members.len()).any(|i| self.sleeps(i));
        let is_lost = self.had().any(|had| matches!(had, Passed::Hold { .. }) && self.is_lost(had));
        let other_waits = self.nodes.iter().skip(1).any(|(_, maker)| *maker == NodeMaker::Other);
        let is_other_first = self.nodes.first().is_some_and(|(_, maker)| *maker == NodeMaker::Other);
        let seen = [
            (handovers > 0, Sight::HandedOver),
            (matches!(self.passed, Passed::Place { .. }), Sight::PlacePassed),
            (self.lingers(), Sight::Lingers),
            (!self.requested.is_empty(), Sight::Requested),
            (handovers >= 5, Sight::ChainOfFive),
            (other_waits, Sight::OtherWaits),
            (self.passed_over > 0 && is_other_first && inside > 0, Sight::Bound),
            (self.is_suspect && is_waiting, Sight::Suspect),
            (is_lost && is_waiting, Sight::LostHold),
            (self.failures > 0, Sight::NodeDeleted),
            (inside >= 8, Sight::Crowd),
        ];
        seen.into_iter().for_each(|(is_seen, sight)| self.sights.note(is_seen, sight as usize));
    }
}
