//! The partition state machine and the membership tracker in a simulated consumer group.
//!
//! The simulation has a coordinator, clients that behave like librdkafka where that matters ([`client`]), and instances
//! that perform the actions of the state machine as the service does ([`instance`]). The coordinator accepts a commit from
//! any member of the present generation, as brokers do, and the oracle checks what brokers do not: every accepted commit
//! must continue where the last one ended. After each sequence the faults end, and every partition must come to be live on
//! exactly one instance.

mod client;
mod coordinator;
mod group;
mod instance;

use std::thread;

use ebb_sketch::random::Random;
use group::{Group, Operation, Violation};
use instance::Guards;

/// Sequences over all random tests; the environment variable raises it for long runs.
fn sequences() -> u64 {
    std::env::var("EBB_CASES").ok().and_then(|value| value.parse().ok()).unwrap_or(1_000_000)
}

fn run_random(seed: u64, guards: Guards) -> Result<(), Violation> {
    let mut random = Random::new(seed);
    let mut group = Group::new(guards, seed % 2 == 0);
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
        let mut commits = 0;
        for seed in seeds {
            if let Err(violation) = run_random(seed, Guards::default()) {
                panic!("sequence {seed}: {violation:?}");
            }
            commits += 1;
        }
        commits
    };
    let checked: u64 = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no violation")).sum()
    });
    assert_eq!(checked, total);
}

#[test]
fn random_sequences_reach_every_kind_of_event() {
    let mut seen = group::Coverage::default();
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let mut group = Group::new(Guards::default(), seed % 2 == 0);
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
    for (name, guards) in Guards::each_removed() {
        let found = (0..200_000).find(|seed| run_random(*seed, guards).is_err());
        assert!(found.is_some(), "no violation without the guard {name}");
    }
}

/// The sequences of the ownership bugs that were found on a real broker.
mod regressions {
    use super::group::Operation::*;
    use super::*;

    fn needs_guard(guards: Guards, is_static: bool, operations: &[Operation]) {
        assert_eq!(run_sequence(Guards::default(), is_static, operations), Ok(()), "with the guard");
        assert!(run_sequence(guards, is_static, operations).is_err(), "without the guard");
    }

    /// Both instances are members; instance 0 owns partitions 0 and 1 and has folded a record of each.
    fn two_members() -> Vec<Operation> {
        vec![Start(0), Poll(0), Poll(0), Start(1), Poll(0), Poll(1), Poll(0), Poll(1), Fold(0, 0), Fold(0, 1)]
    }

    #[test]
    fn call_during_a_pending_loss_does_not_turn_it_into_a_revocation() {
        // The session expires, others take over and commit; an unrelated release answers the loss before it is polled.
        let mut operations = two_members();
        operations.extend([ExpireSession(0), Poll(1), Poll(1), Fold(1, 0), Commit(1), NoticeExpiry(0), Refuse(0, 1)]);
        operations.extend([Poll(0), Poll(0), Poll(0)]);
        needs_guard(Guards { distrusts_pending: false, ..Guards::default() }, false, &operations);
    }

    #[test]
    fn statistic_in_front_of_a_callback_does_not_hide_it() {
        let mut operations = two_members();
        operations.extend([ExpireSession(0), Poll(1), Poll(1), Fold(1, 0), Commit(1)]);
        operations.extend([QueueStatistic(0), NoticeExpiry(0), Refuse(0, 1), Poll(0), Poll(0), Poll(0)]);
        needs_guard(Guards { drains_queue: false, ..Guards::default() }, false, &operations);
    }

    #[test]
    fn partition_is_held_while_it_is_restored() {
        // A commit in doubt rolls back partition 0; the group rebalances before it is restored.
        let mut operations = two_members();
        operations.extend([CommitInDoubt(0), Rebalance(1), Poll(0), Poll(1), Poll(0), Poll(1), Restore(0), Poll(0)]);
        operations.extend([Fold(0, 0), Fold(1, 0), Commit(1), Commit(0)]);
        needs_guard(Guards { holds_while_restoring: false, ..Guards::default() }, false, &operations);
    }

    #[test]
    fn new_member_id_restarts_every_partition() {
        // A static member's session expires while it joins; another one takes over and commits; it comes back silently.
        let mut operations = two_members();
        operations.extend([ExpireSession(0), Poll(1), Poll(1), Fold(1, 0), Commit(1), RejoinSilently(0)]);
        operations.extend([Poll(0), Poll(0), Poll(0), Commit(0)]);
        needs_guard(Guards { checks_member_id: false, ..Guards::default() }, true, &operations);
    }

    #[test]
    fn orphaned_partition_is_found() {
        // Instance 0 gives up a partition and dies before the second round of the rebalance; it returns without one.
        let mut operations = two_members();
        operations.extend([Rebalance(1), PollWithoutRejoin(0), Crash(0), Start(0)]);
        needs_guard(Guards { detects_orphans: false, ..Guards::default() }, true, &operations);
    }
}

#[test]
#[ignore = "prints one sequence: EBB_SEED=n"]
fn trace() {
    let seed: u64 = std::env::var("EBB_SEED").unwrap().parse().unwrap();
    let mut random = Random::new(seed);
    let mut group = Group::new(Guards::default(), seed % 2 == 0);
    for _ in 0..20 + random.below(30) {
        let operation = Operation::random(&mut random);
        println!("{operation:?}");
        let r = group.perform(operation);
        group.dump();
        r.unwrap();
    }
    println!("quiesce");
    let r = group.quiesce();
    group.dump();
    r.unwrap();
}
