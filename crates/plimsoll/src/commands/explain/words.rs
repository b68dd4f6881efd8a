//! The answer for people.

use super::{Answer, bars, mib};
use crate::output::{self, gib};

impl Answer {
    /// Lines of text.
    pub(super) fn words(&self) -> String {
        let explanation = &self.explanation;
        let mut lines = vec![self.title(), self.headline()];
        if let Some(failure) = &explanation.failure {
            lines.push(format!(
                "  runs out in    {}: {} more asked for, {} of {} reserved",
                self.moment(failure.when),
                gib(mib(failure.requested_bytes)),
                gib(mib(failure.reserved_bytes)),
                gib(mib(explanation.gpu_bytes.saturating_sub(explanation.context_bytes))),
            ));
            lines.push("  figures below  are those of an endless GPU".into());
        }
        for (what, at, bytes) in [
            ("most allocated", explanation.allocated_peak, explanation.allocated_peak.allocated_bytes),
            ("most reserved", explanation.reserved_peak, explanation.reserved_peak.reserved_bytes),
        ] {
            lines.push(format!("  {what:<14} {} in {}", gib(mib(bytes)), self.moment(at.when)));
        }
        let growth = explanation.largest_growth;
        lines.push(format!("  grows most     {} in {}", gib(mib(growth.bytes)), self.moment(growth.when)));
        for table in [self.parts_table(), self.layers_table(), self.weights_table()] {
            if table.rows.is_empty() {
                continue;
            }
            lines.push(String::new());
            let header: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
            let text = output::table(&header, &table.rows);
            lines.extend(text.lines().map(|line| format!("  {line}")));
        }
        lines.push(String::new());
        lines.extend(self.course());
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.join("\n")
    }

    fn headline(&self) -> String {
        let explanation = &self.explanation;
        let share = 100.0 * explanation.peak_bytes() as f64 / explanation.gpu_bytes as f64;
        format!(
            "  simulated peak {} of {} ({share:.0} %): {}",
            gib(mib(explanation.peak_bytes())),
            gib(mib(explanation.gpu_bytes)),
            self.verdict()
        )
    }

    /// What is allocated over the last step, drawn with blocks.
    fn course(&self) -> Vec<String> {
        let timeline = &self.explanation.timeline;
        let values: Vec<_> = timeline.iter().map(|at| (at.allocated_bytes, at.phase.name())).collect();
        let highest = timeline.iter().map(|at| at.allocated_bytes).max().unwrap_or_default();
        let mut lines = vec![format!("  allocated over a step, up to {}", gib(mib(highest)))];
        lines.extend(bars::draw(&values).into_iter().map(|line| format!("  {line}")));
        lines
    }
}
