//! Progress bars: on standard error, on a terminal only, gone when done.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use plimsoll_model::{Epoch, Observer};

use crate::interrupt;

/// A bar over a known number of things.
pub(crate) fn bar(what: &str, length: u64) -> ProgressBar {
    styled(ProgressBar::new(length), what)
}

/// A bar below others.
pub(crate) fn bar_in(all: &MultiProgress, what: &str, length: u64) -> ProgressBar {
    styled(all.add(ProgressBar::new(length)), what)
}

fn styled(bar: ProgressBar, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:<24} [{bar:30}] {pos}/{len} {msg} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A counter for work of unknown length.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{prefix:<24} {spinner} {pos} rows {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    bar.set_style(style);
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Words on work of unknown length, shown once it has taken a second.
pub(crate) struct Patience {
    started: Instant,
    spinner: Option<ProgressBar>,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), spinner: None }
    }

    /// Says what is being done now.
    pub(crate) fn tell(&mut self, what: String) {
        if self.spinner.is_none() && self.started.elapsed() > Duration::from_secs(1) {
            let spinner = ProgressBar::new_spinner();
            spinner.enable_steady_tick(Duration::from_millis(200));
            self.spinner = Some(spinner);
        }
        if let Some(spinner) = &self.spinner {
            spinner.set_message(what);
        }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

/// Shows a fit as one bar over its epochs.
pub(crate) struct FitBar {
    bar: RefCell<Option<ProgressBar>>,
    name: String,
}

impl FitBar {
    pub(crate) fn new(name: &str) -> Self {
        Self { bar: RefCell::new(None), name: name.to_owned() }
    }
}

impl Observer for FitBar {
    fn begin(&self, epochs: usize, done: usize, _steps_per_epoch: usize) {
        let bar = bar(&self.name, epochs as u64);
        bar.set_position(done as u64);
        *self.bar.borrow_mut() = Some(bar);
    }

    fn epoch(&self, epoch: &Epoch) {
        if let Some(bar) = self.bar.borrow().as_ref() {
            bar.set_position(epoch.epoch as u64);
            bar.set_message(message(epoch));
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }

    fn should_stop(&self) -> bool {
        interrupt::is_requested()
    }
}

/// An epoch in a few words.
pub(crate) fn message(epoch: &Epoch) -> String {
    epoch.validation_median_ape_pct.map_or_else(
        || format!("loss {:.3}", epoch.training_loss),
        |error| format!("loss {:.3}, median error {error:.2} %", epoch.training_loss),
    )
}
