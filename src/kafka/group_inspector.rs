//! Inspects a consumer group's assignment from outside and can force a rebalance.
//!
//! A static member (`group.instance.id`) that restarts gets its last assignment back without a rebalance. If it had
//! revoked a partition for another member and died before the next generation assigned it, it returns without that
//! partition. Then no member owns the partition, and neither members nor brokers have a reason to rebalance.

use std::time::{Duration, Instant};

use rdkafka::producer::{BaseProducer, Producer as _};

use super::consumer::Consumer;
use super::event::{ConsumerEvent, TopicPartition};
use super::fault::{Fault, Remedy};
use super::settings::Settings;

const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest to wait until all members have joined the new generation.
const REBALANCE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const LIST_MEMBERS: &str = "listing the group's members";

/// A group member and its assigned partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: String,
    pub assignment: Vec<TopicPartition>,
}

/// Reads the assignment of the configured group without being a member of it.
pub struct GroupInspector {
    settings: Settings,
    client: BaseProducer,
}

impl std::fmt::Debug for GroupInspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GroupInspector")
    }
}

impl GroupInspector {
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let client = settings.metadata_client().create();
        let client = client.map_err(|error| Fault::new("creating a client", Remedy::End, error))?;
        Ok(Self { settings: settings.clone(), client })
    }

    /// The members, or `None` during a rebalance or if the group is empty.
    pub fn members(&self) -> Result<Option<Vec<Member>>, Fault> {
        let name = &self.settings.group;
        let response = self.client.client().fetch_group_list(Some(name), LIST_TIMEOUT);
        let list = response.map_err(|error| Fault::idempotent(LIST_MEMBERS, &error))?;
        let Some(group) = list.groups().iter().find(|group| group.name() == name && group.state() == "Stable") else {
            return Ok(None);
        };
        let member = |info: &rdkafka::groups::GroupMemberInfo| {
            let assignment = info.assignment().map_or(Some(Vec::new()), decode_assignment)?;
            Some(Member { id: info.id().to_owned(), assignment })
        };
        let members: Option<Vec<Member>> = group.members().iter().map(member).collect();
        let malformed = || Fault::new(LIST_MEMBERS, Remedy::Retry, "a member's assignment is malformed");
        members.ok_or_else(malformed).map(Some)
    }

    /// Joins the group as a dynamic member, accepts no partitions and leaves: every member rejoins and all partitions
    /// are assigned again.
    pub fn trigger_rebalance(&self, topics: &[&str]) -> Result<(), Fault> {
        let settings = Settings { instance: None, ..self.settings.clone() };
        let (mut consumer, begun) = (Consumer::subscribe(&settings, topics)?, Instant::now());
        while begun.elapsed() < REBALANCE_TIMEOUT {
            match consumer.poll(POLL_INTERVAL) {
                ConsumerEvent::Assigned(_) => {
                    consumer.assign(&[])?;
                    break;
                }
                ConsumerEvent::Failed(fault) => return Err(fault),
                ConsumerEvent::Idle
                | ConsumerEvent::Revoked(_)
                | ConsumerEvent::Lost(_)
                | ConsumerEvent::MemberIdChanged
                | ConsumerEvent::StrayRecord(_)
                | ConsumerEvent::BrokersDown(_) => {}
            }
        }
        consumer.close();
        Ok(())
    }
}

/// Decodes the assignment of the consumer protocol: version, topics, and partitions of each, all big-endian.
fn decode_assignment(bytes: &[u8]) -> Option<Vec<TopicPartition>> {
    fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
        let (head, tail) = rest.split_at_checked(count)?;
        *rest = tail;
        Some(head)
    }
    fn non_negative_i16(rest: &mut &[u8]) -> Option<usize> {
        let bytes = take(rest, 2)?;
        usize::try_from(i16::from_be_bytes(bytes.try_into().ok()?)).ok()
    }
    fn non_negative_i32(rest: &mut &[u8]) -> Option<u32> {
        let bytes = take(rest, 4)?;
        u32::try_from(i32::from_be_bytes(bytes.try_into().ok()?)).ok()
    }
    let (mut rest, mut assignment) = (bytes, Vec::new());
    if rest.is_empty() {
        return Some(assignment);
    }
    let _version = non_negative_i16(&mut rest)?;
    for _ in 0..non_negative_i32(&mut rest)? {
        let length = non_negative_i16(&mut rest)?;
        let topic = std::str::from_utf8(take(&mut rest, length)?).ok()?;
        for _ in 0..non_negative_i32(&mut rest)? {
            assignment.push(TopicPartition { topic: topic.into(), partition: non_negative_i32(&mut rest)? });
        }
    }
    Some(assignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_well_formed_assignments_and_rejects_truncated_ones() {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 2, b'a', b'b', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7];
        let partition = |partition| TopicPartition { topic: "ab".into(), partition };
        assert_eq!(decode_assignment(&bytes), Some(vec![partition(0), partition(7)]));
        for length in 1..bytes.len() {
            assert_eq!(decode_assignment(&bytes[..length]), None, "truncated to {length} bytes");
        }
        assert_eq!(decode_assignment(&[]), Some(Vec::new()));
        bytes[10] = 255;
        assert_eq!(decode_assignment(&bytes), None, "negative partition count");
    }
}
