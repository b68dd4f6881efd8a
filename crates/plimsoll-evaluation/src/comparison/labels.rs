//! Labels beside lines: who shares one, and where they stand.

use super::ComparisonLine;

/// Characters of a label at most, so that it fits beside the chart.
const WIDTH: usize = 34;

/// A label of one or several GPUs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Label {
    /// The capacity that it points to, MiB.
    pub(super) mib: f64,
    pub(super) text: String,
    /// The GPU, if it is one alone.
    pub(super) place: Option<usize>,
}

/// One label for each GPU, the largest first.
pub(super) fn each(lines: &[ComparisonLine]) -> Vec<Label> {
    let mut labels: Vec<Label> = lines
        .iter()
        .enumerate()
        .map(|(place, line)| Label {
            mib: line.capacity_mib,
            text: shorten(&format!("{}: {:.1} GiB", line.gpu, line.capacity_mib / 1024.0)),
            place: Some(place),
        })
        .collect();
    labels.sort_by(|a, b| b.mib.total_cmp(&a.mib));
    labels
}

/// So few labels that GPUs of about the same size share one, the largest first.
pub(super) fn shared(lines: &[ComparisonLine], limit: usize) -> Vec<Label> {
    let mut lines: Vec<&ComparisonLine> = lines.iter().collect();
    lines.sort_by(|a, b| b.capacity_mib.total_cmp(&a.capacity_mib));
    let mut tolerance = 1.0;
    loop {
        let mut groups: Vec<Vec<&ComparisonLine>> = Vec::new();
        for line in &lines {
            match groups.last_mut() {
                Some(group) if group[0].capacity_mib <= tolerance * line.capacity_mib => group.push(line),
                _ => groups.push(vec![line]),
            }
        }
        if groups.len() <= limit.max(1) {
            return groups.iter().map(|group| shared_label(group)).collect();
        }
        tolerance *= 1.03;
    }
}

fn shared_label(group: &[&ComparisonLine]) -> Label {
    let (high, low) = (group[0].capacity_mib, group[group.len() - 1].capacity_mib);
    let gib = |mib: f64| format!("{:.0}", mib / 1024.0);
    let size = if gib(low) == gib(high) { gib(high) } else { format!("{}–{}", gib(low), gib(high)) };
    // The shortest name is the best known: parts of GPUs have long ones.
    let name = group.iter().map(|line| line.gpu.as_str()).min_by_key(|name| name.len()).unwrap_or_default();
    let text = match group.len() {
        1 => format!("{size} GiB: {name}"),
        count => format!("{size} GiB: {name} and {} more", count - 1),
    };
    Label { mib: (high * low).sqrt(), text: shorten(&text), place: None }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(gpu: &str, capacity_mib: f64) -> ComparisonLine {
        ComparisonLine { gpu: gpu.to_owned(), capacity_mib, peaks_mib: Vec::new() }
    }

    #[test]
    fn gpus_of_one_size_share_a_label() {
        let lines = [line("a", 16_384.0), line("b", 24_576.0), line("c", 16_376.0)];
        let texts: Vec<_> = shared(&lines, 2).into_iter().map(|label| label.text).collect();
        assert_eq!(texts, ["24 GiB: b", "16 GiB: a and 1 more"]);
        assert_eq!(each(&lines)[0], Label { mib: 24_576.0, text: "b: 24.0 GiB".into(), place: Some(1) });
        assert_eq!(shared(&lines, 1).len(), 1);
        assert!(shorten(&"x".repeat(99)).ends_with("x…"));
    }
}
