//! The partition state machine and the membership tracker in a simulated consumer group.
//!
//! The simulation has a coordinator, clients that behave like librdkafka where that matters ([`client`]), and instances
//! that perform the actions of the state machine as the service does ([`poll`], [`worker`]). The coordinator accepts a commit from
//! any member of the present generation, as brokers do, and the oracle checks what brokers do not: every accepted commit
//! must continue where the last one ended. After each sequence the faults end; then the group must have assigned every
//! partition, and after one more rebalance every partition must be live on exactly one instance.

mod client;
mod coordinator;
mod group;
mod instance;
mod operation;
mod poll;
mod worker;

use std::thread;

use ebb_sketch::random::Random;
use group::{Group, Violation};
use instance::Guards;
use operation::{Coverage, Operation};

/// Sequences over all random tests; the environment variable raises it for long runs.
fn sequences() -> u64 {
    std::env::var("EBB_CASES").ok().and_then(|value| value.parse().ok()).unwrap_or(1_000_000)
}

fn run_random(seed: u64, guards: Guards) -> Result<(), Violation> {
    let mut random = Random::new(seed);
    let mut group = Group::new(guards, seed.is_multiple_of(2));
    for _ in 0..20 + random.below(30) {
        let operation = Operation::random(&mut random);
        group.perform(operation)?;
    }
    group.quiesce()
}

fn run_sequence(guards: Guards, is_static: bool, operations: &[Operation]) -> Result<(), Violation> {
    let mut group = Group::new(guards, is_static);
    for operation in operations {
        group.perform(*operation)?;
    }
    group.quiesce()
}

#[test]
fn random_sequences_never_commit_what_belongs_to_another_member() {
    let (total, threads) = (sequences(), 2);
    let run = |thread: u64| {
        let seeds = (0..total).filter(move |seed| seed % threads == thread);
        let mut sequences = 0;
        for seed in seeds {
            if let Err(violation) = run_random(seed, Guards::default()) {
                panic!("sequence {seed}: {violation:?}");
            }
            sequences += 1;
        }
        sequences
    };
    let checked: u64 = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no violation")).sum()
    });
    assert_eq!(checked, total);
}

#[test]
fn random_sequences_reach_every_kind_of_event() {
    let mut seen = Coverage::default();
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let mut group = Group::new(Guards::default(), seed.is_multiple_of(2));
        for _ in 0..40 {
            group.perform(Operation::random(&mut random)).expect("no violation");
        }
        group.quiesce().expect("no violation");
        seen.add(&group.coverage);
    }
    assert!(seen.is_complete(), "{seen:?}");
}

/// Every guard matters: without it random sequences find a violation.
#[test]
fn random_sequences_find_a_violation_without_each_guard() {
    for (name, with, without) in Guards::each_removed() {
        let is_caught = |seed: &u64| run_random(*seed, without).is_err() && run_random(*seed, with).is_ok();
        assert!((0..200_000).any(|seed| is_caught(&seed)), "no violation without the guard {name}");
    }
}

/// The shortest sequences of the ownership bugs that were found on a real broker. Some of them need the fault-free rounds at
/// the end, in which all instances fold and commit.
mod regressions {
    use super::operation::Operation::*;
    use super::*;

    fn needs_guard(name: &str, is_static: bool, operations: &[Operation]) {
        let guards = Guards::each_removed().into_iter().find(|(guard, ..)| *guard == name);
        let (_, with, without) = guards.expect("the guard exists");
        assert_eq!(run_sequence(Guards::default(), is_static, operations), Ok(()), "with all guards");
        assert_eq!(run_sequence(with, is_static, operations), Ok(()), "with the guard");
        assert!(run_sequence(without, is_static, operations).is_err(), "without the guard");
    }

    /// The session expires, and releasing a partition answers the loss before it is polled: the client is a member again,
    /// and the loss looks like a revocation.
    #[test]
    fn call_during_a_pending_loss_does_not_turn_it_into_a_revocation() {
        let operations = [Start(2), Poll(2), Start(0), ExpireSession(2), StopFetcher(2, 2), ExpireSession(0)];
        needs_guard("distrusts_pending", false, &operations);
    }

    /// A poll that serves a statistic returns nothing although a callback is queued behind it.
    #[test]
    fn statistic_in_front_of_a_callback_does_not_hide_it() {
        let operations =
            [Start(2), ExpireSession(2), Poll(2), Start(1), QueueStatistic(1), RejoinSilently(2), Fold(2, 0)];
        needs_guard("drains_queue", true, &operations);
    }

    /// A partition that is released while it is restored is not claimed in a rebalance, and goes to another member without
    /// a revocation.
    #[test]
    fn partition_is_held_while_it_is_restored() {
        needs_guard("holds_while_restoring", false, &[Start(1), ExpireSession(1)]);
    }

    /// A static member's session expires while it joins: it gets a new member id, and no callback says that another member
    /// owned its partitions in between.
    #[test]
    fn new_member_id_restarts_every_partition() {
        let operations =
            [Start(2), ExpireSession(2), Start(0), PollWithoutRejoin(2), QueueStatistic(2), RejoinSilently(2)];
        needs_guard("checks_member_id", true, &operations);
    }

    /// A static member gives up a partition and dies before the group has rebalanced again: it returns to the assignment
    /// that was decided before, and the partition has no owner.
    #[test]
    fn orphaned_partition_is_found() {
        needs_guard("detects_orphans", true, &[Start(1), Start(0), Poll(1), Crash(1), Start(1)]);
    }
}
