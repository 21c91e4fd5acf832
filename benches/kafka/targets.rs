//! Performance targets and whether they were met.

/// All targets measured so far.
#[derive(Debug, Default)]
pub struct Targets {
    lines: Vec<String>,
    missed: usize,
}

impl Targets {
    pub fn require_at_least(&mut self, name: &str, value: f64, target: f64) {
        self.record(format!("{name}: {value:.2}, target >= {target}"), value >= target);
    }

    pub fn require_at_most(&mut self, name: &str, value: f64, target: f64) {
        self.record(format!("{name}: {value:.2}, target <= {target}"), value <= target);
    }

    fn record(&mut self, line: String, is_met: bool) {
        self.missed += usize::from(!is_met);
        self.lines.push(format!("  {} {line}", if is_met { "met   " } else { "MISSED" }));
    }

    /// Prints all targets and returns whether every one was met.
    pub fn print(&self) -> bool {
        println!("\ntargets\n{}", self.lines.join("\n"));
        self.missed == 0
    }
}
