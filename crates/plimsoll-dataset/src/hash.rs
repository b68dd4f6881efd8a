//! A fingerprint of data: what a checkpoint says it was fitted to.

use crate::measurement::Outcome;
use crate::sample::Sample;

/// Hashes samples one after the other: ids, outcomes, targets and features. Order counts.
#[derive(Debug, Clone)]
pub struct ContentHasher {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl Default for ContentHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl ContentHasher {
    /// A hasher that has seen nothing.
    pub fn new() -> Self {
        Self { hasher: blake3::Hasher::new_derive_key("plimsoll samples, version 3"), buffer: Vec::new() }
    }

    /// Takes one sample in.
    pub fn add(&mut self, sample: &Sample) {
        let Sample {
            id,
            family,
            architecture,
            shape,
            gpu,
            capacity_mib,
            batch_size,
            label,
            stack,
            outcome,
            utilisation,
            published_estimates,
            doubt,
            features,
        } = sample;
        self.buffer.clear();
        for text in [id, family.name(), architecture, shape, gpu, label.name()] {
            self.text(text);
        }
        self.text(&stack.to_string());
        self.double(*capacity_mib);
        self.buffer.extend(batch_size.to_le_bytes());
        let (status, mib) = match *outcome {
            Outcome::Measured { peak_mib } => (0, peak_mib),
            Outcome::OutOfMemory { above_mib } => (1, above_mib),
            Outcome::Unknown => (2, 0.0),
        };
        self.buffer.push(status);
        self.double(mib);
        for ratio in utilisation {
            // No ratio is negative, so this one stands for "not recorded".
            self.singles(&[ratio.unwrap_or(-1.0)]);
        }
        self.length(published_estimates.len());
        for (estimator, mib) in published_estimates {
            self.text(estimator);
            self.double(*mib);
        }
        // A sample without a doubt keeps the fingerprint that it had before there were any.
        if let Some(doubt) = doubt {
            self.text(&doubt.reason);
            self.double(doubt.reading_mib);
        }
        self.length(features.tokens.len());
        self.buffer.extend(features.tokens.iter().flat_map(|token| token.to_le_bytes()));
        for numbers in [&features.layers, &features.summary, &features.gpu] {
            self.length(numbers.len());
            self.singles(numbers);
        }
        self.singles(&features.analytic.to_array());
        self.hasher.update(&self.buffer);
    }

    /// The fingerprint of everything so far: 64 hexadecimal digits.
    pub fn finish(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }

    // Lengths stand before contents, so that no two different samples give the same bytes.
    fn length(&mut self, length: usize) {
        self.buffer.extend((length as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.buffer.extend(text.as_bytes());
    }

    fn double(&mut self, value: f64) {
        self.buffer.extend(value.to_le_bytes());
    }

    fn singles(&mut self, values: &[f32]) {
        self.buffer.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
}

/// The fingerprint of samples in their order.
pub fn content_hash<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> String {
    let mut hasher = ContentHasher::new();
    for sample in samples {
        hasher.add(sample);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::sample;

    #[test]
    fn any_change_changes_the_hash_and_nothing_else_does() {
        let samples = [sample(2, 8), sample(3, 8)];
        let hash = content_hash(&samples);
        assert_eq!(hash.len(), 64);
        assert_eq!(hash, content_hash(&samples.clone()));
        let changes: [fn(&mut Sample); 8] = [
            |sample| sample.id.push('x'),
            |sample| sample.architecture.push('x'),
            |sample| sample.outcome = Outcome::Unknown,
            |sample| sample.stack = "cuda 12.4".parse().expect("a version"),
            |sample| sample.utilisation[5] = Some(0.25),
            |sample| sample.published_estimates.push(("horus".into(), 9.0)),
            |sample| sample.features.layers[0] += 1.0,
            |sample| sample.features.analytic.tensor_sum_mib += 1.0,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = samples.clone();
            change(&mut changed[1]);
            assert_ne!(content_hash(&changed), hash, "change {index}");
        }
        assert_ne!(content_hash(samples.iter().rev()), hash, "order counts");
    }

    #[test]
    fn text_cannot_move_from_one_field_to_the_next() {
        let (mut left, mut right) = (sample(2, 8), sample(2, 8));
        (left.architecture, left.shape) = ("ab".into(), "c".into());
        (right.architecture, right.shape) = ("a".into(), "bc".into());
        assert_ne!(content_hash([&left]), content_hash([&right]));
    }
}
