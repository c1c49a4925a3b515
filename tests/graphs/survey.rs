//! Many graphs, and what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::build;
use crate::common::machine::{number, say};
use crate::form::{FORMS, Form, listing};
use crate::graph::Graph;
use crate::known::{Failure, all, known};
use crate::minimise::minimise;
use crate::run::{Outcome, WORKER, keep_panics_quiet, last_panic, overdue, run};
use test_tools::tempfile;

/// As many as a minute has time for, on a machine that does nothing else.
const GRAPHS: u64 = 6000;
/// Longer than any of these models takes, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);
/// Of the models, how many may be refused. A refusal is no failure, but a plug-in that refuses
/// everything is never wrong.
const MOST_REFUSED: f64 = 0.05;
/// How many operators the graphs must have been made of, so that nothing falls out unnoticed.
const FEWEST_OPERATORS: usize = 60;

#[derive(Default)]
struct Tally {
    models: u64,
    operators: BTreeSet<&'static str>,
    /// By reason: how many, and the seed of one.
    refused: BTreeMap<String, (u64, u64)>,
    panicked: BTreeMap<String, (u64, u64)>,
    /// By what is known: how many, and one in full.
    excused: BTreeMap<&'static str, (u64, String)>,
    excused_kinds: BTreeSet<String>,
    /// By operators and problem: how many, and one in full.
    failures: BTreeMap<String, (u64, String)>,
    shown: BTreeSet<String>,
}

impl Tally {
    fn count(list: &mut BTreeMap<String, (u64, u64)>, reason: String, seed: u64) {
        list.entry(reason).or_insert((0, seed)).0 += 1;
    }
}

struct Survey {
    first: u64,
    count: u64,
    next: AtomicU64,
    is_over: AtomicBool,
    tally: Mutex<Tally>,
    into: Option<PathBuf>,
    writes_all: bool,
    /// Whether what is known is shown with smallest graphs.
    shows_known: bool,
    /// Which refusals are shown with their smallest graphs.
    shown: Option<String>,
}

pub fn survey() {
    let survey = Survey {
        first: number("SEED").unwrap_or(0),
        count: number("GRAPHS").unwrap_or(GRAPHS),
        next: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        tally: Mutex::default(),
        into: std::env::var_os("GRAPHS_INTO").map(PathBuf::from),
        writes_all: std::env::var_os("GRAPHS_ALL").is_some(),
        shows_known: std::env::var_os("GRAPHS_KNOWN").is_some(),
        shown: std::env::var("GRAPHS_REFUSED").ok(),
    };
    keep_panics_quiet();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        let worker = |_| {
            let builder = std::thread::Builder::new().name(WORKER.into()).stack_size(64 << 20);
            builder.spawn_scoped(scope, || survey.work()).expect("a thread")
        };
        let threads: Vec<_> = (0..workers).map(worker).collect();
        scope.spawn(|| survey.watch());
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        survey.is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a worker of the test itself panicked");
    });
    let tally = survey.tally.into_inner().expect("no worker panicked");
    report(&tally, survey.count);
}

impl Survey {
    fn work(&self) {
        let folder = tempfile::tempdir().expect("a folder");
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return;
            }
            let seed = self.first + number;
            if catch_unwind(AssertUnwindSafe(|| self.graph(seed, folder.path()))).is_err() {
                let text = format!("seed {seed}: the test itself: {}", last_panic());
                self.tally().failures.insert(text.clone(), (1, text));
            }
        }
    }

    /// Ends the process where a model does not end: nothing else can stop a thread.
    fn watch(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            if let Some((graph, form)) = overdue(PATIENCE) {
                say(&format!(
                    "a graph of seed {} does not end:\n{}",
                    graph.seed,
                    listing(&graph, &form)
                ));
                if let Some(into) = &self.into {
                    form.write(&graph, &into.join(format!("seed_{}_endless", graph.seed)));
                }
                std::process::exit(101);
            }
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn graph(&self, seed: u64, folder: &std::path::Path) {
        let graph = build::graph(seed);
        if graph.outputs.is_empty() {
            return;
        }
        for number in 0..FORMS {
            let form = Form::new(&graph, number, seed);
            if self.writes_all
                && let Some(into) = &self.into
            {
                form.write(&graph, &into.join(format!("{seed}_{number}")));
            }
            let outcome = run(&graph, &form, folder);
            let failure = match &outcome {
                Outcome::Wrong(_) => Some(self.failure(seed, number, &graph, &form, folder)),
                _ => None,
            };
            if let (Some(wanted), Outcome::Refused(reason) | Outcome::Panicked(reason)) =
                (&self.shown, &outcome)
                && reason.contains(wanted)
                && self.tally().shown.insert(general(reason))
            {
                self.show(seed, &graph, &form, folder, wanted);
            }
            let mut tally = self.tally();
            tally.models += 1;
            tally.operators.extend(graph.operators());
            match outcome {
                Outcome::Refused(reason) => {
                    Tally::count(&mut tally.refused, general(&reason), seed)
                }
                Outcome::Panicked(reason) => {
                    Tally::count(&mut tally.panicked, general(&reason), seed)
                }
                Outcome::Right | Outcome::Wrong(_) => {}
            }
            match failure {
                Some(Ok((name, kind, text))) => {
                    if self.shows_known && tally.excused_kinds.insert(format!("{name} {kind}")) {
                        say(&format!("known: {name}: {text}"));
                    }
                    tally.excused.entry(name).or_insert((0, text)).0 += 1;
                }
                Some(Err((kind, text))) => {
                    tally.failures.entry(kind).or_insert((0, text)).0 += 1;
                }
                None => {}
            }
        }
    }

    /// Says what the smallest graph is that is refused for such a reason.
    fn show(&self, seed: u64, graph: &Graph, form: &Form, folder: &std::path::Path, wanted: &str) {
        let is_such = |outcome: &Outcome| match outcome {
            Outcome::Refused(reason) | Outcome::Panicked(reason) => reason.contains(wanted),
            _ => false,
        };
        let (graph, form) = minimise(graph, form, folder, &is_such);
        let outcome = run(&graph, &form, folder);
        say(&format!("seed {seed}: {outcome:?}\n{}", listing(&graph, &form)));
    }

    /// The name of what is known to be wrong, or a report.
    fn failure(
        &self,
        seed: u64,
        number: u64,
        graph: &Graph,
        form: &Form,
        folder: &std::path::Path,
    ) -> Result<(&'static str, String, String), (String, String)> {
        let (graph, form) = minimise(graph, form, folder, &Outcome::is_wrong);
        let problem = match run(&graph, &form, folder) {
            Outcome::Wrong(problem) => problem,
            other => format!("{other:?}"),
        };
        let failure = Failure { graph: &graph, problem: &problem };
        let kind = format!("{} {}", graph.operators().join(" "), general(&problem));
        let text = format!("seed {seed}, form {number}: {problem}\n{}", listing(&graph, &form));
        if let Some(known) = known(&failure) {
            return Ok((known.name, kind, text));
        }
        if let Some(into) = &self.into {
            form.write(&graph, &into.join(format!("seed_{seed}_{number}")));
        }
        Err((kind, text))
    }
}

/// A reason without names and numbers.
fn general(reason: &str) -> String {
    let mut text = String::new();
    for character in reason.chars().take(400) {
        let is_repeated = character.is_ascii_digit() && text.ends_with('#');
        if !is_repeated {
            text.push(if character.is_ascii_digit() { '#' } else { character });
        }
    }
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(220).collect()
}

fn report(tally: &Tally, graphs: u64) {
    let sum =
        |list: &BTreeMap<String, (u64, u64)>| list.values().map(|(count, _)| count).sum::<u64>();
    let (refused, panicked) = (sum(&tally.refused), sum(&tally.panicked));
    let share = (refused + panicked) as f64 / tally.models.max(1) as f64;
    say(&format!(
        "{graphs} graphs of {} operators, {} models: {} wrong, {} as is known, {refused} refused and {panicked} panics \
         ({:.1} %)",
        tally.operators.len(),
        tally.models,
        tally.failures.values().map(|(count, _)| count).sum::<u64>(),
        tally.excused.values().map(|(count, _)| count).sum::<u64>(),
        share * 100.0,
    ));
    for (title, list) in [("refused", &tally.refused), ("panic", &tally.panicked)] {
        let mut rows: Vec<_> = list.iter().collect();
        rows.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        let shown = number("GRAPHS_REASONS").unwrap_or(12) as usize;
        for (reason, (count, seed)) in rows.into_iter().take(shown) {
            say(&format!("  {title} {count} times, as seed {seed}: {reason}"));
        }
    }
    for known in all() {
        let count = tally.excused.get(known.name).map_or(0, |(count, _)| *count);
        say(&format!("  known {count} times: {}: {}", known.name, known.reason));
    }
    let failures: Vec<String> =
        tally.failures.values().map(|(count, text)| format!("{count} times, as {text}")).collect();
    assert!(failures.is_empty(), "wrong in {} ways:\n{}", failures.len(), failures.join("\n"));
    assert!(share <= MOST_REFUSED, "{:.1} % of the models are refused", share * 100.0);
    if graphs >= GRAPHS {
        assert!(tally.operators.len() >= FEWEST_OPERATORS, "{:?}", tally.operators);
    }
}
