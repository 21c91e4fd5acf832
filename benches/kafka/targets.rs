//! What must be reached, and whether it was.

/// Every bar that was measured against.
#[derive(Debug, Default)]
pub struct Bars {
    lines: Vec<String>,
    missed: usize,
}

impl Bars {
    /// A figure that must not be smaller.
    pub fn at_least(&mut self, name: &str, figure: f64, bar: f64) {
        self.note(format!("{name}: {figure:.2}, bar >= {bar}"), figure >= bar);
    }

    /// A figure that must not be larger.
    pub fn at_most(&mut self, name: &str, figure: f64, bar: f64) {
        self.note(format!("{name}: {figure:.2}, bar <= {bar}"), figure <= bar);
    }

    fn note(&mut self, line: String, is_met: bool) {
        self.missed += usize::from(!is_met);
        self.lines.push(format!("  {} {line}", if is_met { "met   " } else { "MISSED" }));
    }

    /// Prints all of them; whether all were met, and there were any.
    pub fn print(&self) -> bool {
        println!("\nbars\n{}", self.lines.join("\n"));
        self.missed == 0
    }
}
