//! O6: the harness must be able to fail. Each rule of recovery is broken on purpose, and the break is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ebb::workers::Mutant;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer};

use super::hanging::play_torn_commits;
use super::logs::play_retention;
use super::{Play, PlaySpec};
use crate::stage::{GROUP, StageSpec};
use crate::{only_from_ci_on, skip_without_own_kafka};

const ROUNDS: u64 = 6;
const RECORDS: u64 = 20_000;

/// Kills and failed commits, as many as a sound service passes with ease.
fn play(mutant: &str) {
    let mut play = Play::begin(&PlaySpec {
        stage: StageSpec { partitions: 2, ..StageSpec::new("mutant") },
        per_second: Some(3_000),
        variables: vec![("EBB_MUTANT", mutant.to_owned())],
        ..PlaySpec::new("mutant", RECORDS)
    });
    for round in 0..ROUNDS {
        play.start_all();
        let before = play.committed();
        play.wait_committed(before + 300, Duration::from_secs(60));
        if round % 2 == 1 {
            for _ in 0..3 {
                fence_out(&play);
                play.pause(200, 500);
            }
        }
        play.pause(200, 900);
        play.kill(0);
    }
    play.end(Duration::from_secs(60));
}

/// Takes the names of the service's producers: whatever they have open fails.
fn fence_out(play: &Play) {
    for worker in 0..2 {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", play.stage.cluster.brokers()).set("log_level", "0");
        let intruder: BaseProducer =
            config.set("transactional.id", format!("{GROUP}-ebb-0-{worker}")).create().expect("a producer");
        intruder.init_transactions(Duration::from_secs(20)).expect("the name is taken");
    }
}

fn is_caught(mutant: Mutant) -> bool {
    let broken = || match mutant {
        Mutant::SkipIdentity => play_retention(vec![("EBB_MUTANT", mutant.name().to_owned())]),
        Mutant::BelieveOffsets => play_torn_commits(Some(mutant.name())),
        _ => play(mutant.name()),
    };
    catch_unwind(AssertUnwindSafe(broken)).is_err()
}

#[test]
fn every_mutant_of_the_recovery_is_caught_and_the_sound_service_is_not() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    if !cfg!(feature = "mutants") {
        eprintln!("SKIPPED: needs --features mutants");
        return;
    }
    play("none");
    play_retention(Vec::new());
    let only = std::env::var("EBB_MUTANTS").unwrap_or_default();
    let is_chosen = |mutant: &Mutant| only.is_empty() || only.split(',').any(|name| name == mutant.name());
    let chosen: Vec<Mutant> = Mutant::ALL.into_iter().filter(is_chosen).collect();
    let mut survivors = Vec::new();
    for mutant in &chosen {
        let caught = is_caught(*mutant);
        println!("mutant {}: {}", mutant.name(), if caught { "caught" } else { "SURVIVED" });
        survivors.extend((!caught).then_some(mutant.name()));
    }
    println!("{} of {} mutants caught", chosen.len() - survivors.len(), chosen.len());
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
