//! Who may do what with a partition, as pure code without I/O.
//!
//! - [`PartitionState`]: the life of one partition on one instance, from assignment to revocation. The thread that polls
//!   the consumer and the worker that owns the shard report events to it and perform the actions it asks for.
//! - [`MembershipTracker`]: which of the client's rebalance callbacks can be trusted, and under which group membership
//!   offsets may be committed.
//!
//! Brokers check the member id and the generation of a commit, not who owns the partition. Both types exist to close that
//! gap: a partition is committed only by the instance that the group assigned it to, and only from state that was restored
//! under that assignment. `tests/partition_model` checks this against a simulated group.

mod membership;
mod state;

pub use membership::{GroupEvent, Membership, MembershipTracker};
pub use state::{Actions, ConsumerAction, Epoch, PartitionEvent, PartitionState, Phase, Revocation, WorkerAction};
