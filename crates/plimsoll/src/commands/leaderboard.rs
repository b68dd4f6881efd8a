//! `plimsoll leaderboard`

use anyhow::{Context, Result, ensure};
use plimsoll_dataset::Target;
use plimsoll_evaluation::{Leaderboard, LeaderboardRow};

use crate::cli::LeaderboardArguments;
use crate::output;

/// Collects runs into a leaderboard and shows it.
pub(super) fn run(arguments: &LeaderboardArguments) -> Result<()> {
    let target = Target::ALL.into_iter().find(|target| target.name() == arguments.target).with_context(|| {
        let known: Vec<&str> = Target::ALL.map(Target::name).to_vec();
        format!("unknown target `{}`: expected one of {}", arguments.target, known.join(", "))
    })?;
    let mut rows: Vec<LeaderboardRow> = Vec::new();
    for path in &arguments.runs {
        let file = if path.is_dir() { path.join("leaderboard.csv") } else { path.clone() };
        ensure!(file.exists(), "{} is neither a leaderboard nor the folder of a run", path.display());
        rows.extend(Leaderboard::read(&file)?.rows().cloned());
    }
    if let Some(page) = &arguments.page {
        let extension = page.extension().and_then(|extension| extension.to_str());
        ensure!(extension == Some("html"), "--page: expected a file that ends in .html, found {}", page.display());
    }
    let leaderboard = if arguments.fresh {
        let mut leaderboard = Leaderboard::default();
        leaderboard.merge(rows);
        leaderboard.write(&arguments.into)?;
        leaderboard
    } else if rows.is_empty() {
        ensure!(arguments.into.exists(), "{} does not exist yet: name the runs to collect", arguments.into.display());
        Leaderboard::read(&arguments.into)?
    } else {
        if let Some(folder) = arguments.into.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        Leaderboard::update(&arguments.into, rows)?
    };
    if let Some(page) = &arguments.page {
        leaderboard.write_page(page)?;
    }
    if arguments.json {
        return output::json(&leaderboard.rows().collect::<Vec<_>>());
    }
    let number = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let mut chosen: Vec<&LeaderboardRow> =
        leaderboard.rows().filter(|row| row.target == target && row.family == "all").collect();
    chosen.sort_by(|a, b| {
        (&a.data, &a.split)
            .cmp(&(&b.data, &b.split))
            .then(a.mape_pct.unwrap_or(f64::INFINITY).total_cmp(&b.mape_pct.unwrap_or(f64::INFINITY)))
    });
    let rows: Vec<Vec<String>> = chosen
        .iter()
        .map(|row| {
            vec![
                row.data.clone(),
                row.split.clone(),
                row.estimator.clone(),
                if row.config.is_empty() { row.run_id.clone() } else { row.config.clone() },
                row.n.to_string(),
                number(row.median_ape_pct, 2),
                number(row.mape_pct, 2),
                number(row.r2, 3),
                number(row.underestimation_rate, 2),
                number(row.coverage_95, 3),
                number(row.bin_accuracy, 3),
            ]
        })
        .collect();
    let header = [
        "data",
        "split",
        "estimator",
        "run",
        "n",
        "median APE %",
        "MAPE %",
        "R2",
        "underestimated",
        "bound 95 %",
        "bin accuracy",
    ];
    output::line(output::table(&header, &rows))
}
