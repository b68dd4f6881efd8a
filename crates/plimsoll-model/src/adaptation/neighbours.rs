//! What measured jobs say of jobs like them.
//!
//! A line says what all jobs of a GPU share. What is left differs from network to network, and is much the same for one
//! network at several batches: a Gaussian process over the features of jobs carries it from those that were measured to
//! those that are like them, and says nothing of others (Rasmussen and Williams, Gaussian Processes for Machine Learning,
//! 2006, chapter 2).

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use crate::bounds::LEVELS;

/// Distances over which likeness falls: roots of mean squares over scaled features.
const LENGTHS: [f64; 4] = [0.8, 0.4, 0.2, 0.1];
/// Variances of what one job's measurement says of itself alone, beside a variance of 1 of what it says of others too.
const NOISES: [f64; 3] = [1.0, 0.3, 0.05];
/// Fewer rows than this are not told from each other.
const LEAST_ROWS: usize = 5;
/// Most jobs that are kept, evenly picked: time grows with the cube of their number.
const MOST_ROWS: usize = 200;
/// A logarithm of measurement over line counts up to this.
const LARGEST_MISS: f64 = 1.0;
/// Scaled features are kept within plus or minus this, in hundredths.
const FARTHEST: f32 = 5.0;

/// Where a job stands among others: its scaled features, bounded and rounded as a checkpoint keeps them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Place(Vec<f32>);

impl Place {
    /// The place of scaled features.
    pub fn new(scaled: &[f32]) -> Self {
        let hundredths = |value: &f32| (value.clamp(-FARTHEST, FARTHEST) * 100.0).round() / 100.0;
        // A number that is none is at no distance.
        Self(scaled.iter().map(hundredths).map(|value| if value.is_finite() { value } else { 0.0 }).collect())
    }

    /// Mean square of the differences.
    fn square_distance(&self, other: &Self) -> f64 {
        let squares = self.0.iter().zip(&other.0).map(|(one, other)| f64::from((one - other).powi(2)));
        squares.sum::<f64>() / self.0.len().max(1) as f64
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        // Most features of most jobs are zero.
        place.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = |word: &str| word.parse::<f32>().ok().filter(|value| value.abs() <= FARTHEST);
        let numbers = text.split_whitespace().map(|word| number(word).ok_or_else(|| word.to_owned()));
        let numbers = numbers.collect::<Result<Vec<f32>, String>>();
        numbers.map(Self).map_err(|word| format!("expected scaled features from -5 to 5, found `{word}`"))
    }
}

/// Measured jobs, and what each says of those like it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbours {
    /// Distance over which likeness falls.
    pub length: f64,
    /// Bounds of a job that is as one of these, as [`super::Adaptation::log_bounds`] are those of a job like none.
    pub log_bounds: [f64; 4],
    /// The jobs.
    pub jobs: Vec<Neighbour>,
}

/// A measured job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// What it adds to the logarithm of memory of a job just like it, beside what its own neighbours do.
    pub weight: f64,
    /// Its features.
    pub features: Place,
}

/// Neighbours that were fitted, and what they say of rows.
pub(super) struct Fitted {
    pub(super) neighbours: Neighbours,
    /// What the others say of each row.
    pub(super) left_out: Vec<f64>,
}

impl Neighbours {
    /// Fits to what a line leaves of rows of so many networks: logarithms of measurement over line.
    ///
    /// Length and noise are judged by what is left of each row if the others speak for it, and by what is left if only those of
    /// other networks do, half by half: what serves a network at another batch must not mislead about another network.
    /// `None` where that is nowhere below `worth` times what the line leaves.
    pub(super) fn fit(places: &[&Place], networks: &[usize], misses: &[f64], worth: f64) -> Option<Fitted> {
        let step = places.len().div_ceil(MOST_ROWS).max(1);
        let kept: Vec<usize> = (0..places.len()).step_by(step).collect();
        if kept.len() < LEAST_ROWS {
            return None;
        }
        let misses: Vec<f64> = misses.iter().map(|miss| miss.clamp(-LARGEST_MISS, LARGEST_MISS)).collect();
        let known = DVector::from_iterator(kept.len(), kept.iter().map(|&row| misses[row]));
        let distances = DMatrix::from_fn(kept.len(), kept.len(), |row, column| {
            places[kept[row]].square_distance(places[kept[column]])
        });
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, &row) in kept.iter().enumerate() {
            members.entry(networks[row]).or_default().push(place);
        }
        let mut best: Option<(f64, DVector<f64>, DVector<f64>)> = None;
        let mut least = worth * known.abs().mean();
        for length in LENGTHS {
            let likeness = distances.map(|distance| likeness(distance, length));
            for noise in NOISES {
                let mut covariance = likeness.clone();
                for row in 0..kept.len() {
                    covariance[(row, row)] += noise;
                }
                // Positive definite by its noise, but for what rounding does to many rows that are the same.
                let Some(inverse) = covariance.cholesky().map(|factor| factor.inverse()) else { continue };
                let weights = &inverse * &known;
                // What all say of a row less what it says of itself, in closed form; the same of a network.
                let left = weights.component_div(&inverse.diagonal());
                let error = f64::midpoint(left.abs().mean(), left_of_networks(&inverse, &weights, &members));
                if error < least {
                    // A closer fit has to be worth as much again.
                    least = worth * error;
                    best = Some((length, weights, left));
                }
            }
        }
        let (length, weights, left) = best?;
        let jobs = kept.iter().zip(weights.iter());
        let jobs = jobs.map(|(&row, &weight)| Neighbour { weight, features: places[row].clone() }).collect();
        let neighbours = Self { length, log_bounds: [0.0; LEVELS.len()], jobs };
        // Rows that are not among the jobs are new to them.
        let mut left_out: Vec<f64> = places.iter().map(|place| neighbours.at(place).0).collect();
        for ((&row, known), left) in kept.iter().zip(&known).zip(&left) {
            left_out[row] = known - left;
        }
        Some(Fitted { neighbours, left_out })
    }

    /// What is added to the logarithm of a job's memory, and how like the nearest measured job it is: from 0 to 1.
    pub(super) fn at(&self, place: &Place) -> (f64, f64) {
        let (mut sum, mut nearest) = (0.0, 0.0_f64);
        for job in &self.jobs {
            let likeness = likeness(job.features.square_distance(place), self.length);
            sum += job.weight * likeness;
            nearest = nearest.max(likeness);
        }
        (sum.clamp(-LARGEST_MISS, LARGEST_MISS), nearest)
    }

    /// Whether its numbers, which may come from a file, can be worked with.
    pub(super) fn is_sound(&self, features: usize) -> bool {
        (1e-3..=1e3).contains(&self.length)
            && super::are_sound(&self.log_bounds)
            && self.jobs.len() <= MOST_ROWS
            && self.jobs.iter().all(|job| job.weight.abs() <= 100.0 && job.features.0.len() == features)
    }
}

/// Mean size of what is left of rows if only those of other networks speak for them: by a network's block of the inverse
/// covariance, as by the diagonal for single rows.
fn left_of_networks(inverse: &DMatrix<f64>, weights: &DVector<f64>, members: &BTreeMap<usize, Vec<usize>>) -> f64 {
    let left = members.values().map(|rows| {
        let block = inverse.select_rows(rows).select_columns(rows);
        let weights = weights.select_rows(rows);
        block.cholesky().map_or(f64::INFINITY, |factor| factor.solve(&weights).abs().sum())
    });
    left.sum::<f64>() / weights.len() as f64
}

fn likeness(square_distance: f64, length: f64) -> f64 {
    (-square_distance / (2.0 * length * length)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kinds of jobs, far apart, each at several batches; one kind misses by a tenth, the other not at all.
    fn rows(count: usize) -> (Vec<Place>, Vec<f64>) {
        let row = |row: usize| {
            let (kind, batch) = (row % 2, (row / 2) as f32 / count as f32);
            let wobble = 0.001 * ((row * 7 % 5) as f64 - 2.0);
            (Place::new(&[kind as f32 * 3.0, batch, 0.0, -1.0]), 0.1 * kind as f64 + wobble)
        };
        (0..count).map(row).unzip()
    }

    fn fit(places: &[Place], misses: &[f64]) -> Option<Fitted> {
        // Of two networks, in turns.
        let networks: Vec<usize> = (0..places.len()).map(|row| row % 2).collect();
        Neighbours::fit(&places.iter().collect::<Vec<_>>(), &networks, misses, 0.98)
    }

    #[test]
    fn a_job_like_measured_ones_misses_as_they_do_and_a_strange_one_does_not() {
        let (places, misses) = rows(20);
        let fitted = fit(&places, &misses).expect("rows speak of each other");
        let at = |features: &[f32]| fitted.neighbours.at(&Place::new(features));
        let (miss, nearest) = at(&[3.0, 0.33, 0.0, -1.0]);
        assert!((miss - 0.1).abs() < 0.01 && nearest > 0.9, "{miss}, {nearest}");
        assert!(at(&[0.0, 0.33, 0.0, -1.0]).0.abs() < 0.01);
        let (miss, nearest) = at(&[-5.0, 5.0, 5.0, 5.0]);
        assert!(miss.abs() < 1e-3 && nearest < 1e-3, "{miss}, {nearest}");
        for (left_out, miss) in fitted.left_out.iter().zip(&misses) {
            assert!((left_out - miss).abs() < 0.02, "{left_out} for {miss}");
        }
    }

    #[test]
    fn rows_that_say_nothing_of_each_other_have_no_neighbours() {
        // The same miss up and down in turns, whatever the features.
        let places: Vec<Place> = (0..30).map(|row| Place::new(&[0.1 * row as f32])).collect();
        let misses: Vec<f64> = (0..30).map(|row| if row % 2 == 0 { 0.1 } else { -0.1 }).collect();
        assert!(fit(&places, &misses).is_none());
        let (places, misses) = rows(4);
        assert!(fit(&places, &misses).is_none(), "too few");
        assert!(fit(&places, &[0.0; 4]).is_none());
    }

    #[test]
    fn rows_without_number_that_are_all_the_same_are_few_jobs() {
        let places = vec![Place::new(&[1.0, 2.0]); 5_000];
        let fitted = fit(&places, &vec![0.2; 5_000]).expect("all say the same");
        assert!(fitted.neighbours.jobs.len() <= MOST_ROWS);
        assert!((fitted.neighbours.at(&places[0]).0 - 0.2).abs() < 0.01);
        assert!(fitted.neighbours.is_sound(2) && !fitted.neighbours.is_sound(3));
    }

    #[test]
    fn places_are_kept_as_text_and_wild_ones_refused() {
        let place = Place::new(&[0.1234, -7.0, f32::NAN, f32::INFINITY, 0.0]);
        let text = serde_json::to_string(&place).expect("serialises");
        assert_eq!(text, r#""0.12 -5 0 5 0""#);
        assert_eq!(serde_json::from_str::<Place>(&text).expect("own text"), place);
        for text in ["0.1 NaN", "0.1 inf", "6", "a"] {
            let error = serde_json::from_value::<Place>(text.into()).expect_err(text).to_string();
            assert!(error.contains("scaled features"), "{error}");
        }
    }
}
