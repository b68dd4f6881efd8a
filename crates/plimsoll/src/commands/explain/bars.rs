//! Memory over a step for a terminal: a few rows of blocks, parts of the step named below.

/// Columns of the drawing at most.
const WIDTH: usize = 72;
/// Rows of the drawing.
const HEIGHT: usize = 4;
/// A row's blocks, from an eighth to the whole.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws values with the part that each belongs to. Every column shows the highest value of its stretch.
pub(super) fn draw(values: &[(u64, &'static str)]) -> Vec<String> {
    let width = WIDTH.min(values.len());
    let highest = values.iter().map(|(value, _)| *value).max().unwrap_or_default();
    if highest == 0 {
        return Vec::new();
    }
    let columns: Vec<&[(u64, &str)]> =
        (0..width).map(|column| &values[column * values.len() / width..(column + 1) * values.len() / width]).collect();
    let eighths = columns.iter().map(|stretch| {
        let value = stretch.iter().map(|(value, _)| *value).max().unwrap_or_default();
        (value as f64 / highest as f64 * (HEIGHT * BLOCKS.len()) as f64).ceil() as usize
    });
    let eighths: Vec<usize> = eighths.collect();
    let mut lines: Vec<String> = (0..HEIGHT)
        .rev()
        .map(|row| {
            let blocks = eighths.iter().map(|eighths| match eighths.saturating_sub(row * BLOCKS.len()) {
                0 => ' ',
                part => BLOCKS[part.min(BLOCKS.len()) - 1],
            });
            blocks.collect::<String>().trim_end().to_owned()
        })
        .collect();
    let phases: Vec<&str> = columns.iter().filter_map(|stretch| Some(stretch.last()?.1)).collect();
    lines.push(names(&phases));
    lines
}

/// The name of each part below its first column, with a stroke before it; a name too long for its part is cut short
/// unless it is the last.
fn names(phases: &[&str]) -> String {
    let mut line = String::new();
    let mut parts = phases.chunk_by(|a, b| a == b).peekable();
    while let Some(part) = parts.next() {
        let label = format!("└{}", part[0]);
        match parts.peek() {
            Some(_) => line.extend(label.chars().chain(std::iter::repeat(' ')).take(part.len())),
            None => line.push_str(&label),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_high_as_its_highest_value() {
        let mut values: Vec<(u64, &'static str)> = vec![(25, "forward"); 5 * WIDTH];
        values.extend(vec![(50, "backward"); 5 * WIDTH]);
        values[3].0 = 100;
        let lines = draw(&values);
        assert_eq!(lines.len(), HEIGHT + 1);
        assert_eq!(lines[0], "█");
        assert_eq!(lines[2], format!("█{}{}", " ".repeat(WIDTH / 2 - 1), "█".repeat(WIDTH / 2)));
        assert_eq!(lines[3], "█".repeat(WIDTH));
        assert_eq!(lines[4], format!("└{:<35}└backward", "forward"));
    }

    #[test]
    fn little_is_drawn_too() {
        assert!(draw(&[]).is_empty() && draw(&[(0, "forward")]).is_empty());
        assert_eq!(draw(&[(1, "forward"), (8, "optimizer")]), [" █", " █", " █", "▄█", "└└optimizer"]);
    }
}
