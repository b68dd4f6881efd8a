//! Fits as processes: a few at a time, watched, resumed where they stopped.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{MultiProgress, ProgressBar};

use crate::commands::worker::{Job, Message};
use crate::errors::Hint;
use crate::{interrupt, progress};

/// Cores of this machine.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A fit under way.
struct Running {
    name: String,
    child: Child,
    bar: ProgressBar,
    messages: Receiver<Message>,
    errors: Receiver<String>,
}

/// Runs all jobs that are not done yet, so many at a time.
pub(super) fn run_all(jobs: &[Job], work: &Path, parallel: usize) -> Result<()> {
    let mut waiting: VecDeque<&Job> = jobs.iter().filter(|job| !job.predictions().exists()).collect();
    let bars = MultiProgress::new();
    let total = progress::bar_in(&bars, "fits", jobs.len() as u64);
    total.set_position((jobs.len() - waiting.len()) as u64);
    // Matrix kernels gain little from threads; what cores are left over still helps a single fit.
    let threads = (cores() / parallel.min(waiting.len()).max(1)).max(1);
    let mut running: Vec<Running> = Vec::new();
    let result = loop {
        // Every fit keeps its last epoch, so that ending one loses no more than the epoch under way.
        if interrupt::is_requested() {
            break Ok(());
        }
        while running.len() < parallel {
            let Some(job) = waiting.pop_front() else { break };
            running.push(start(job, work, threads, &bars)?);
        }
        match watch(&mut running, &total) {
            Ok(()) if running.is_empty() && waiting.is_empty() => break Ok(()),
            Ok(()) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => break Err(error),
        }
    };
    // After a failure or an interruption the others are ended too.
    for fit in &mut running {
        let _ = fit.child.kill();
        let _ = fit.child.wait();
    }
    bars.clear().ok();
    result?;
    if interrupt::is_requested() {
        let hint = Hint("the same command goes on where it stopped".into());
        return Err(anyhow::Error::new(hint).context("interrupted; finished epochs are kept"));
    }
    Ok(())
}

fn start(job: &Job, work: &Path, threads: usize, bars: &MultiProgress) -> Result<Running> {
    std::fs::create_dir_all(&job.folder).with_context(|| format!("cannot create {}", job.folder.display()))?;
    let part = job.fold.map_or_else(|| "final".to_owned(), |fold| format!("fold {fold}"));
    let path = work.join(format!("{}-{}.json", job.name, part.replace(' ', "-")));
    std::fs::write(&path, serde_json::to_vec(job)?).with_context(|| format!("cannot write {}", path.display()))?;
    let program = std::env::current_exe().context("cannot find this program to start workers")?;
    let mut child = Command::new(program)
        .arg("worker")
        .arg(&path)
        .env("RAYON_NUM_THREADS", threads.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a worker")?;
    let (send_message, messages) = channel();
    let (send_error, errors) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || forward(stdout, &send_message));
    }
    if let Some(mut stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            let _ = send_error.send(text);
        });
    }
    let bar = progress::bar_in(bars, &format!("{} {part}", job.name), job.settings.training.epochs as u64);
    Ok(Running { name: format!("{} ({part})", job.name), child, bar, messages, errors })
}

fn forward(stdout: impl Read, messages: &Sender<Message>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str(&line) else { continue };
        if messages.send(message).is_err() {
            return;
        }
    }
}

/// Moves bars and takes away fits that ended.
fn watch(running: &mut Vec<Running>, total: &ProgressBar) -> Result<()> {
    let mut index = 0;
    while index < running.len() {
        let fit = &mut running[index];
        for message in fit.messages.try_iter() {
            match message {
                Message::Begin { epochs, done } => {
                    fit.bar.set_length(epochs as u64);
                    fit.bar.set_position(done as u64);
                }
                Message::Epoch(epoch) => {
                    fit.bar.set_position(epoch.epoch as u64);
                    fit.bar.set_message(progress::message(&epoch));
                }
            }
        }
        match fit.child.try_wait().context("cannot watch a worker")? {
            None => index += 1,
            Some(status) => {
                let fit = running.swap_remove(index);
                fit.bar.finish_and_clear();
                ended(&fit, status)?;
                total.inc(1);
            }
        }
    }
    Ok(())
}

fn ended(fit: &Running, status: ExitStatus) -> Result<()> {
    if status.success() || interrupt::is_requested() {
        return Ok(());
    }
    let text = fit.errors.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
    let reason = text.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(text.trim());
    if reason.is_empty() {
        bail!("the fit of {} ended with {status}", fit.name);
    }
    bail!("the fit of {} failed: {reason}", fit.name);
}
