//! The learning rate over a fit.

use crate::settings::TrainingSettings;

/// Rises linearly over the warm-up, then falls along a cosine to the final share.
pub(super) fn learning_rate(settings: &TrainingSettings, done: f64) -> f64 {
    let share = if done < settings.warmup {
        // Never zero: the first step counts too.
        (done / settings.warmup).max(0.01)
    } else {
        let rest = ((done - settings.warmup) / (1.0 - settings.warmup).max(1e-9)).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * rest).cos());
        settings.final_learning_rate + (1.0 - settings.final_learning_rate) * cosine
    };
    settings.learning_rate * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_then_falls_to_the_final_share() {
        let settings =
            TrainingSettings { learning_rate: 1.0, warmup: 0.1, final_learning_rate: 0.01, ..Default::default() };
        let rates: Vec<f64> = (0..=100).map(|percent| learning_rate(&settings, f64::from(percent) / 100.0)).collect();
        assert!(rates[..10].windows(2).all(|pair| pair[0] < pair[1]));
        assert!(rates[10..].windows(2).all(|pair| pair[0] > pair[1]));
        assert!((rates[100] - 0.01).abs() < 1e-12);
    }
}
