//! O6: the harness must be able to fail. Each rule of recovery is broken on purpose, and the break is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ebb::workers::Mutant;

use super::{Play, PlaySpec};
use crate::proxy::{Act, Api, Rule};
use crate::stage::StageSpec;
use crate::{only_from_ci_on, skip_without_kafka};

/// Kills and doubtful commits, as many as a sound service passes with ease.
fn play(mutant: &str) {
    let kafka = "  instance: {instance}\n  properties: {session.timeout.ms: 6000, heartbeat.interval.ms: 500, socket.timeout.ms: 1000, \
                 reconnect.backoff.max.ms: 500}";
    let mut play = Play::begin(&PlaySpec {
        stage: StageSpec { with_proxy: true, partitions: 2, ..StageSpec::new("mutant") },
        per_second: Some(3_000),
        kafka,
        variables: vec![("EBB_MUTANT", mutant.to_owned())],
        ..PlaySpec::new("mutant", 40_000)
    });
    for round in 0..6 {
        play.start_all();
        let before = play.committed();
        play.wait_committed(before + 500, Duration::from_secs(30));
        if round % 2 == 1 {
            let proxy = play.stage.proxy.as_ref().expect("a proxy");
            for (api, act) in
                [(Api::TXN_OFFSET_COMMIT, Act::Cut), (Api::END_TXN, Act::LoseReply), (Api::PRODUCE, Act::Cut)]
            {
                proxy.add_rule(Rule { times: 3, ..Rule::next(api, act) });
            }
            proxy.cut("");
            play.pause(1_000, 3_000);
            play.stage.proxy.as_ref().expect("a proxy").clear_rules();
        }
        play.pause(300, 1_200);
        play.kill(0);
    }
    play.end(Duration::from_secs(60));
}

#[test]
fn every_mutant_of_the_recovery_is_caught_and_the_sound_service_is_not() {
    skip_without_kafka!();
    only_from_ci_on!();
    if !cfg!(feature = "mutants") {
        eprintln!("SKIPPED: needs --features mutants");
        return;
    }
    play("none");
    let only = std::env::var("EBB_MUTANTS").unwrap_or_default();
    let chosen: Vec<Mutant> = Mutant::ALL
        .into_iter()
        .filter(|mutant| only.is_empty() || only.split(',').any(|name| name == mutant.name()))
        .collect();
    let survivors: Vec<&str> = chosen
        .iter()
        .map(|mutant| mutant.name())
        .filter(|name| {
            let caught = catch_unwind(AssertUnwindSafe(|| play(name))).is_err();
            println!("mutant {name}: {}", if caught { "caught" } else { "SURVIVED" });
            !caught
        })
        .collect();
    println!("{} of {} mutants caught", chosen.len() - survivors.len(), chosen.len());
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
