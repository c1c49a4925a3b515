//! Many cases, and what became of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use test_tools::tempfile;
use tract_onnx::prelude::*;
use tract_onnx_cast::{model_proto, onnx, output_element_types};

use crate::answer::Answer;
use crate::case::case;
use crate::common::cases::Typed;
use crate::common::machine::{number, say};
use crate::draw::Draw;
use crate::form::{Form, listing, name};
use crate::graph::Node;
use crate::table::{Row, rows};

/// As many as half a minute has time for, on a machine that does nothing else.
const CASES: u64 = 4500;
/// Longer than any of these models takes, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);
const WORKER: &str = "operators";

#[derive(Debug)]
enum Outcome {
    Right,
    Wrong(String),
    /// By a line that names a node.
    Refused(String),
}

#[derive(Default)]
struct Counts {
    right: u64,
    wrong: u64,
    refused: BTreeMap<String, (u64, u64)>,
}

#[derive(Default)]
struct Tally {
    operators: BTreeMap<&'static str, Counts>,
    failures: Vec<String>,
}

struct Survey {
    rows: Vec<Row>,
    first: u64,
    count: u64,
    next: AtomicU64,
    is_over: AtomicBool,
    tally: Mutex<Tally>,
    running: Mutex<Vec<(u64, Instant, String)>>,
    into: Option<PathBuf>,
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn survey() {
    let only = std::env::var("OPERATOR").ok();
    let is_wanted = |row: &Row| only.as_ref().is_none_or(|only| row.op == only);
    let survey = Survey {
        rows: rows().into_iter().filter(is_wanted).collect(),
        first: number("SEED").unwrap_or(0),
        count: number("OPERATORS").unwrap_or(CASES),
        next: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        tally: Mutex::default(),
        running: Mutex::default(),
        into: std::env::var_os("OPERATORS_INTO").map(PathBuf::from),
    };
    assert!(!survey.rows.is_empty(), "there is no operator {only:?}");
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() != Some(WORKER) {
            return usual(info);
        }
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("no message");
        PANIC.set(format!("{message} at {place}"));
    }));
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
    report(&survey);
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
            match catch_unwind(AssertUnwindSafe(|| case(seed, &self.rows))) {
                Ok(Some(draw)) => self.run(seed, &draw, folder.path()),
                Ok(None) => {}
                Err(_) => {
                    let text = format!("seed {seed}: the test itself: {}", PANIC.take());
                    locked(&self.tally).failures.push(text);
                }
            }
        }
    }

    /// Ends the process where a model does not end: nothing else can stop a thread.
    fn watch(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            let running = locked(&self.running);
            if let Some((_, _, text)) =
                running.iter().find(|(_, since, _)| since.elapsed() > PATIENCE)
            {
                say(&format!("a model does not end:\n{text}"));
                std::process::exit(101);
            }
        }
    }

    /// With sizes that are known, and with a symbol where there is one.
    fn run(&self, seed: u64, draw: &Draw, folder: &Path) {
        for number in 0..1 + u64::from(draw.is_symbolic()) {
            let form = Form::new(&draw.graph, number, seed);
            let text = format!("seed {seed}: {}", listing(&draw.graph, &form));
            locked(&self.running).push((seed, Instant::now(), text.clone()));
            let outcome = catch_unwind(AssertUnwindSafe(|| checked(draw, &form, folder)));
            locked(&self.running).retain(|(other, ..)| *other != seed);
            let outcome = match outcome {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => refused(draw, &format!("{error:#}")),
                Err(_) => Outcome::Wrong(format!("a panic: {}", PANIC.take())),
            };
            let mut tally = locked(&self.tally);
            let named = match &outcome {
                Outcome::Refused(reason) => of(draw, reason),
                _ => None,
            };
            let is_row = |op: &str| self.rows.iter().any(|row| row.op == op);
            let last = draw.graph.nodes.iter().rfind(|node| is_row(node.op)).map(|node| node.op);
            let op = named.or(last).unwrap_or("none");
            let counts = tally.operators.entry(op).or_default();
            match outcome {
                Outcome::Right => counts.right += 1,
                Outcome::Refused(reason) => {
                    counts.refused.entry(general(&reason)).or_insert((0, seed)).0 += 1;
                }
                Outcome::Wrong(problem) => {
                    counts.wrong += 1;
                    tally.failures.push(format!("{problem}\n{text}"));
                    if let Some(into) = &self.into {
                        form.write(&draw.graph, &into.join(format!("seed_{seed}_{number}")));
                    }
                }
            }
        }
    }
}

/// The operator of the node that an error names.
fn of(draw: &Draw, error: &str) -> Option<&'static str> {
    let is_named = |node: &&Node| {
        let id = node.outputs.first().copied().unwrap_or_default();
        error.contains(&format!("{}_{id}", node.op.rsplit('.').next().unwrap_or_default()))
    };
    draw.graph.nodes.iter().find(is_named).map(|node| node.op)
}

/// A refusal, if it names a node of the model.
fn refused(draw: &Draw, error: &str) -> Outcome {
    match of(draw, error) {
        Some(_) => Outcome::Refused(error.to_string()),
        None => Outcome::Wrong(format!("refused without the name of a node: {error}")),
    }
}

fn checked(draw: &Draw, form: &Form, folder: &Path) -> TractResult<Outcome> {
    let graph = &draw.graph;
    let proto = form.model(graph, folder);
    let model = model_proto::load(&onnx(), proto, Some(folder))?.into_model().into_optimized()?;
    let types = output_element_types(&model)?;
    let plan = model.into_runnable()?;
    let wanted = form.outputs(graph);
    for world in form.worlds() {
        let input = |id: usize| graph.values[id].worlds[world].tensor().into_tvalue();
        let outputs = plan.run(form.inputs().into_iter().map(input).collect())?;
        if outputs.len() != wanted.len() || types.len() != wanted.len() {
            return Ok(Outcome::Wrong(format!("{} outputs, not {}", outputs.len(), wanted.len())));
        }
        for ((value, ty), id) in outputs.into_iter().zip(&types).zip(&wanted) {
            let got = Typed { ty: *ty, tensor: value.into_tensor() };
            let (val, slack) = (&graph.values[*id].worlds[world], &draw.slack[*id][world]);
            let answer = Answer { val: val.clone(), slack: slack.clone() };
            if let Some(complaint) = answer.complaint(&got) {
                let world = if world == 0 { "" } else { " with other sizes" };
                return Ok(Outcome::Wrong(format!("{}{world}: {complaint}", name(*id))));
            }
        }
    }
    Ok(Outcome::Right)
}

/// A reason without numbers.
fn general(reason: &str) -> String {
    let mut text = String::new();
    for character in reason.lines().next().unwrap_or_default().chars().take(260) {
        let is_repeated = character.is_ascii_digit() && text.ends_with('#');
        if !is_repeated {
            text.push(if character.is_ascii_digit() { '#' } else { character });
        }
    }
    text
}

fn report(survey: &Survey) {
    let tally = locked(&survey.tally);
    let (mut right, mut refused, mut table) = (0, 0, String::new());
    let mut never = vec![];
    for (op, counts) in &tally.operators {
        let own: u64 = counts.refused.values().map(|(count, _)| count).sum();
        (right, refused) = (right + counts.right, refused + own);
        let _ =
            writeln!(table, "{op}: {} right, {} wrong, {own} refused", counts.right, counts.wrong);
        for (reason, (count, seed)) in &counts.refused {
            let _ = writeln!(table, "  {count} times, as seed {seed}: {reason}");
        }
        if counts.right == 0 && survey.rows.iter().any(|row| row.op == *op) {
            never.push(*op);
        }
    }
    say(&format!(
        "{} cases of {} operators from seed {}: {right} models right, {refused} refused, {} wrong",
        survey.count,
        tally.operators.len(),
        survey.first,
        tally.failures.len(),
    ));
    if let Some(path) = std::env::var_os("OPERATORS_TABLE") {
        std::fs::write(path, table).expect("a file");
    }
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
    if survey.count >= CASES {
        assert!(never.is_empty(), "never run: {never:?}");
        let missing: Vec<&str> = survey
            .rows
            .iter()
            .map(|row| row.op)
            .filter(|op| !tally.operators.contains_key(op))
            .collect();
        assert!(missing.is_empty(), "never drawn: {missing:?}");
    }
}
