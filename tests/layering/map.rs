//! The modules of each crate from the bottom to the top, and the names that only some modules may use.

/// The rules for the sources of one crate.
#[derive(Debug)]
pub struct CrateMap {
    /// Directory of the sources, relative to the root of the workspace.
    pub sources: &'static str,
    /// From the bottom to the top: a module uses only modules of lower tiers.
    pub tiers: &'static [&'static [&'static str]],
    /// Known uses of a module that is not in a lower tier: (user, used).
    pub exceptions: &'static [(&'static str, &'static str)],
    /// Modules that only the listed modules may use.
    pub used_by: &'static [(&'static str, &'static [&'static str])],
    /// External crates that only one module may name.
    pub external: &'static [(&'static str, &'static str)],
    /// Paths that no file of the crate may name.
    pub forbidden: &'static [&'static [&'static str]],
}

/// Names that make a fold depend on a clock or on the order of a hash map.
const IMPURE: &[&[&str]] = &[&["HashMap"], &["HashSet"], &["SystemTime"], &["Instant", "now"]];

pub const SERVICE: CrateMap = CrateMap {
    sources: "src",
    tiers: &[
        &["config", "metrics"],
        &["kafka", "store"],
        &["workers"],
        &["http", "telemetry"],
        &["app"],
        &["cli"],
        &["main", "lib"],
    ],
    exceptions: &[],
    used_by: &[("config", &["telemetry", "app", "cli", "main"]), ("metrics", &["kafka", "workers", "http", "app"])],
    external: &[
        ("sled", "store"),
        ("rdkafka", "kafka"),
        ("rdkafka_sys", "kafka"),
        ("axum", "http"),
        ("hyper", "http"),
        ("hyper_util", "http"),
    ],
    forbidden: &[],
};

pub const SKETCH: CrateMap = CrateMap {
    sources: "crates/ebb-sketch/src",
    tiers: &[&["codec", "hash", "random", "units"], &["decay"], &["aggregate", "filter"], &["lib"]],
    exceptions: &[],
    used_by: &[],
    external: &[],
    forbidden: IMPURE,
};

pub const CORE: CrateMap = CrateMap {
    sources: "crates/ebb-core/src",
    tiers: &[
        &["event_spec", "offset", "partitioner", "verdict"],
        &["event", "partition"],
        &["frequency", "reader"],
        &["question"],
        &["aggregate", "dedup"],
        &["plan"],
        &["key_rotation"],
        &["shard"],
        &["lib"],
    ],
    // The plan is built from the specifications of the views, and these views refer back to it.
    exceptions: &[("aggregate", "plan"), ("dedup", "key_rotation"), ("dedup", "shard")],
    used_by: &[],
    external: &[],
    forbidden: IMPURE,
};

pub const TRAFFIC: CrateMap = CrateMap {
    sources: "crates/ebb-traffic/src",
    tiers: &[
        &["distributions", "targets"],
        &["options"],
        &["arrivals", "catalog"],
        &["visitors"],
        &["json"],
        &["click"],
        &["requests"],
        &["lib", "tests"],
    ],
    exceptions: &[],
    used_by: &[],
    external: &[],
    forbidden: IMPURE,
};

pub const CRATES: [&CrateMap; 4] = [&SERVICE, &SKETCH, &CORE, &TRAFFIC];

impl CrateMap {
    pub fn tier(&self, module: &str) -> Option<usize> {
        self.tiers.iter().position(|tier| tier.contains(&module))
    }

    /// The only modules that may use `module`, if it is restricted.
    pub fn users(&self, module: &str) -> Option<&'static [&'static str]> {
        self.used_by.iter().find(|(used, _)| *used == module).map(|(_, users)| *users)
    }

    /// The only module that may name the external crate `name`, if it is restricted.
    pub fn owner(&self, name: &str) -> Option<&'static str> {
        self.external.iter().find(|(external, _)| *external == name).map(|(_, owner)| *owner)
    }
}
