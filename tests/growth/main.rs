//! What the library does to a model grows with the model and no faster: time hardly more than in
//! proportion, memory by less than 2 KB for a cast. `GROWTH=100000` measures one more tenfold; with
//! `COUNTED=1000`, each is done once of that size, for a program that counts its instructions.

#![allow(unused_crate_dependencies)]

#[path = "../common/mod.rs"]
mod common;
mod constants;
mod forms;
mod hostile;
mod models;
mod sizes;
mod weights;

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prost::Message;
use test_tools::peak_alloc::PeakAlloc;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::convert::{Options, convert};
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{
    ElementType, Limits, OnnxTensor, input_element_types, model_proto, onnx, output_element_types,
};

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// Growth in time for a tenfold model, where looking up ten times as many names takes ten times as
/// long: what is in proportion is seen to take 10 to 22 times as long, since tables of names
/// outgrow the processor's caches, which others use as well; what looks at every pair takes a
/// hundred times.
const MOST: f64 = 20.0;
/// So many names a node, its values and what the passes note of them have.
const NAMES: usize = 16;
/// What is measured of tract's own work: of more, its share grows by the square, and
/// `Limits::loaded_nodes` refuses them.
const LOADED: [usize; 2] = [1_000, 10_000];
/// What a cast may take, in bytes.
const PER_CAST: usize = 2048;
/// How often it is tried.
const TRIES: usize = 8;
/// A time that systems tell to within a tenth.
const READABLE: Duration = Duration::from_millis(150);

/// One measurement at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time that this thread has computed: neither what else the machine does is in it nor what the
/// system does to give it memory. Systems that do not tell give the time that has passed.
fn busy() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let stat = fs::read_to_string("/proc/thread-self/stat").ok();
    // The thread's name comes second, in brackets, and may have spaces; eleven fields further is
    // the time in ticks.
    let ticks =
        stat.as_deref().and_then(|stat| stat.rsplit_once(')')?.1.split(' ').nth(12)?.parse().ok());
    ticks.map_or_else(|| START.elapsed(), |ticks: u32| TICK * ticks)
}

/// A time, of as many runs as the system's clock of processors needs to tell anything.
fn time(work: impl Fn()) -> Duration {
    let (start, mut runs) = (busy(), 0);
    loop {
        work();
        runs += 1;
        let spent = busy() - start;
        if spent >= READABLE {
            return spent / runs;
        }
    }
}

fn sizes() -> Vec<usize> {
    let most = std::env::var("GROWTH").ok().and_then(|most| most.parse().ok()).unwrap_or(10_000);
    [1_000, 10_000, 100_000].into_iter().filter(|size| *size <= most).collect()
}

/// Measures for each size what is done to what is of that size.
fn is_linear<T>(what: &str, of_size: impl Fn(usize) -> T, work: impl Fn(&T)) {
    grows(what, &sizes(), of_size, work);
}

/// As [`is_linear`], between these sizes.
fn grows<T>(what: &str, sizes: &[usize], of_size: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let _alone = alone();
    if let Some(size) = std::env::var("COUNTED").ok().and_then(|size| size.parse().ok()) {
        let subject = of_size(size);
        counted_work(&|| work(&subject));
        return;
    }
    let subjects: Vec<T> = sizes.iter().map(|size| of_size(*size)).collect();
    let measure = |subject: &T| time(|| work(subject));
    // What is ten times as large is in slower memory too, which shows in looking up names.
    let tables: Vec<NameTable> = sizes.iter().map(|size| NameTable::of(*size)).collect();
    // How often as long as allowed it takes; the processor is faster at one time than at another,
    // so that times of one try are held against each other.
    let mut least = vec![f64::INFINITY; sizes.len().saturating_sub(1)];
    let mut tries = vec![];
    for _ in 0..TRIES {
        let times: Vec<Duration> = subjects.iter().map(measure).collect();
        let lookups: Vec<Duration> = tables.iter().map(|table| time(|| table.look_up())).collect();
        println!("{what}: {times:?}, names {lookups:?} for {sizes:?}");
        let allowed = |lookups| MOST * (growth(lookups) / 10.0).clamp(1.0, 2.0);
        let pairs = times.windows(2).zip(lookups.windows(2));
        for (least, (pair, lookups)) in least.iter_mut().zip(pairs) {
            *least = least.min(growth(pair) / allowed(lookups));
        }
        if least.iter().all(|share| *share <= 1.0) {
            return;
        }
        tries.push((times, lookups));
    }
    panic!("{what}: {least:.2?} of what is allowed for a tenfold; {tries:?} of {sizes:?}");
}

/// Names in a table, and in an order that is not the table's.
struct NameTable {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl NameTable {
    /// As many as models of a size have.
    fn of(size: usize) -> NameTable {
        let count = size * NAMES;
        let name = |place: usize| format!("name_{}", place * 7919 % count);
        let names: Vec<String> = (0..count).map(name).collect();
        NameTable {
            places: (0..count).map(|place| (format!("name_{place}"), place)).collect(),
            names,
        }
    }

    fn look_up(&self) {
        let places = self.names.iter().map(|name| self.places.get(name));
        assert!(std::hint::black_box(places.flatten().sum::<usize>()) > 0);
    }
}

/// Whose instructions are counted, by its name.
#[inline(never)]
fn counted_work(work: &dyn Fn()) {
    work();
}

fn growth(pair: &[Duration]) -> f64 {
    pair[1].as_secs_f64() / pair[0].as_secs_f64()
}

fn rewrite(model: &ModelProto) {
    let onnx = onnx().with_limits(Limits::none());
    let survey = model_proto::survey(&onnx, model.clone(), None).expect("a sound model");
    assert!(survey.problems().is_empty());
}

macro_rules! rewrites {
    ($($kind:ident)*) => {
        mod rewriting {
            $(#[test] fn $kind() {
                crate::is_linear(stringify!($kind), crate::models::$kind, crate::rewrite);
            })*
        }
    };
}

rewrites! {
    chain backwards wide nodes inputs open_inputs initializers cast_initializers attributes calls functions ifs operands
}

/// Reads a model for being run node by node, and runs it where it takes one input of two FLOATs.
fn walk(model: &ModelProto) {
    let onnx = onnx().with_limits(Limits::none());
    let walk = Interpreter::of_proto(onnx, model.clone(), None).expect("a sound model");
    if walk.input_names().len() == 1 {
        let input = OnnxTensor::new(ElementType::Float, tensor1(&[1f32, 2.])).expect("its carrier");
        walk.run(vec![input]).expect("a sound model");
    }
}

macro_rules! walks {
    ($($kind:ident)*) => {
        mod walking {
            $(#[test] fn $kind() {
                crate::is_linear(concat!("walking ", stringify!($kind)), crate::models::$kind, crate::walk);
            })*
        }
    };
}

walks! { chain backwards wide nodes inputs initializers calls ifs sums concats sequences }

/// As a search over a deep model has it, which converts once for each try.
#[test]
fn nodes_are_kept_by_their_names() {
    let of_size = |count| {
        let model = models::nodes(count);
        let names = model.graph.iter().flat_map(|graph| &graph.node).map(|node| node.name.clone());
        let mut options = Options::new(ElementType::Float16);
        (options.keep, options.limits) = (names.collect(), Limits::none());
        (model.encode_to_vec(), options)
    };
    is_linear("kept nodes", of_size, |(model, options)| {
        let kept = convert(model, None, options).expect("a sound model").kept;
        assert_eq!(kept.len(), options.keep.len());
    });
}

/// Loads a model of any size.
fn loaded(model: &ModelProto) -> InferenceModel {
    let onnx = onnx().with_limits(Limits::none());
    model_proto::load(&onnx, model.clone(), None).expect("a model").into_model()
}

/// The two helpers, by themselves: loading is tract's.
fn types(what: &str, model: fn(usize) -> ModelProto) {
    let load = |size| loaded(&model(size));
    is_linear(what, load, |model| {
        input_element_types(model).expect("known");
        output_element_types(model).expect("known");
    });
}

#[test]
fn types_of_many_inputs_are_told() {
    types("input types", models::inputs);
}

#[test]
fn types_of_many_outputs_are_told() {
    types("output types", models::wide);
}

/// One node takes them all, so that what is known of one may tell something of another.
#[test]
fn open_inputs_of_one_node_are_settled() {
    let load = |model: &ModelProto| drop(loaded(model));
    grows("open inputs of one node", &LOADED, models::open_together, load);
}

#[test]
fn open_inputs_are_settled() {
    let settle = |model: &ModelProto| assert!(loaded(model).analyse(false).is_ok());
    grows("open inputs", &LOADED, models::open_inputs, settle);
}

/// The most that some work has of the heap.
fn peak(work: impl FnOnce()) -> usize {
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    work();
    PEAK.peak_usage().saturating_sub(before)
}

#[test]
fn a_cast_takes_little_memory() {
    let _alone = alone();
    for (what, model) in [("chain", models::chain(10_000)), ("wide", models::wide(10_000))] {
        // The model in tract's messages is tract's own.
        let own = peak(|| drop(model.clone()));
        let bytes = peak(|| {
            drop(model_proto::survey(&onnx(), model.clone(), None).expect("a sound model"))
        });
        let per_cast = bytes.saturating_sub(own) / 10_000;
        println!("{what}: {per_cast} bytes for a cast");
        assert!(per_cast < PER_CAST, "{what}: {per_cast} bytes for a cast");
    }
}

/// All casts of a graph share its path, and a path has an end.
#[test]
fn a_long_name_is_there_once() {
    let _alone = alone();
    let model = models::long_name(1_000);
    let bytes =
        peak(|| drop(model_proto::survey(&onnx(), model.clone(), None).expect("a sound model")));
    assert!(bytes < 16 << 20, "{bytes} bytes");
    let survey = model_proto::survey(&onnx(), model, None).expect("a sound model");
    let casts = survey.rows();
    let first = &casts[0].graph;
    assert!(first.len() < 1_000, "{}", first.len());
    assert!(casts.iter().all(|cast| Arc::ptr_eq(&cast.graph, first)), "a path for each cast");
}
