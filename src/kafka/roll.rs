//! Who has which partition of a group, and calling the group together anew.
//!
//! Members with names of their own come back to what the group last decided for them, without a rebalance. One that gave
//! a partition up for another, and dies before the group has met again, comes back without it: nobody has it, and neither
//! members nor brokers will ever see anything to decide.

use std::time::{Duration, Instant};

use rdkafka::producer::{BaseProducer, Producer as _};

use super::consumer::Consumer;
use super::event::{Event, TopicPartition};
use super::fault::{Fault, Remedy};
use super::settings::Settings;

/// The longest all brokers are asked for.
const ASKING: Duration = Duration::from_secs(5);
/// How long it may take until everybody has met.
const MEETING: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(100);

/// One member of a group, and what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: String,
    pub parts: Vec<TopicPartition>,
}

/// See the module.
pub struct Roll {
    settings: Settings,
    asker: BaseProducer,
}

impl std::fmt::Debug for Roll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Roll")
    }
}

impl Roll {
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let asker = settings.asker().create().map_err(|error| Fault::new("making a client", Remedy::End, error))?;
        Ok(Self { settings: settings.clone(), asker })
    }

    /// The members; nothing while the group decides, or has none.
    pub fn members(&self) -> Result<Option<Vec<Member>>, Fault> {
        let name = &self.settings.group;
        let asked = self.asker.client().fetch_group_list(Some(name), ASKING);
        let list = asked.map_err(|error| Fault::repeatable("asking for the group's members", &error))?;
        let Some(group) = list.groups().iter().find(|group| group.name() == name && group.state() == "Stable") else {
            return Ok(None);
        };
        let member = |one: &rdkafka::groups::GroupMemberInfo| {
            let parts = one.assignment().map_or(Some(Vec::new()), parts_of)?;
            Some(Member { id: one.id().to_owned(), parts })
        };
        let members: Option<Vec<Member>> = group.members().iter().map(member).collect();
        let unreadable = || Fault::new("asking for the group's members", Remedy::Retry, "an assignment cannot be read");
        members.ok_or_else(unreadable).map(Some)
    }

    /// Joins under no name, takes nothing, and leaves again: everybody else joins anew, and everything is dealt out.
    pub fn call_together(&self, topics: &[&str]) -> Result<(), Fault> {
        let guest = Settings { instance: None, ..self.settings.clone() };
        let (mut guest, begun) = (Consumer::subscribe(&guest, topics)?, Instant::now());
        while begun.elapsed() < MEETING {
            match guest.poll(TURN) {
                Event::Assign(_) => {
                    guest.assign(&[])?;
                    break;
                }
                Event::Failed(fault) => return Err(fault),
                _ => {}
            }
        }
        guest.close();
        Ok(())
    }
}

/// Reads what the members' protocol says of an assignment.
fn parts_of(bytes: &[u8]) -> Option<Vec<TopicPartition>> {
    fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
        let (taken, left) = rest.split_at_checked(count)?;
        *rest = left;
        Some(taken)
    }
    fn short(rest: &mut &[u8]) -> Option<usize> {
        let taken = take(rest, 2)?;
        usize::try_from(i16::from_be_bytes(taken.try_into().ok()?)).ok()
    }
    fn long(rest: &mut &[u8]) -> Option<u32> {
        let taken = take(rest, 4)?;
        u32::try_from(i32::from_be_bytes(taken.try_into().ok()?)).ok()
    }
    let (mut rest, mut parts) = (bytes, Vec::new());
    if rest.is_empty() {
        return Some(parts);
    }
    short(&mut rest)?;
    for _ in 0..long(&mut rest)? {
        let length = short(&mut rest)?;
        let topic = std::str::from_utf8(take(&mut rest, length)?).ok()?;
        for _ in 0..long(&mut rest)? {
            parts.push(TopicPartition { topic: topic.into(), partition: long(&mut rest)? });
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_as_members_write_them_and_nothing_else_is() {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 2, b'a', b'b', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7];
        let part = |partition| TopicPartition { topic: "ab".into(), partition };
        assert_eq!(parts_of(&bytes), Some(vec![part(0), part(7)]));
        for length in 1..bytes.len() {
            assert_eq!(parts_of(&bytes[..length]), None, "cut at {length}");
        }
        assert_eq!(parts_of(&[]), Some(Vec::new()));
        bytes[10] = 255;
        assert_eq!(parts_of(&bytes), None, "a negative count");
    }
}
