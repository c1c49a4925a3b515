//! Whole models, in turns: what half precision costs against FLOAT.
//!
//! - `models FOLDER...`: each folder's model with its first set of inputs (`test_data_set_0`): the
//!   time to load, the shortest run, and both as multiples of the first folder's. `stock` before a
//!   folder loads it by tract alone, `small` as below.
//! - `models memory [small] FOLDER`: the memory of the process (Linux) when the model is loaded and
//!   has run, and the most on the way; `small` keeps weights in few bits wherever tract has a
//!   format for them.
//! - `models profile FOLDER...`: where the time of such a run goes, by operators, for each of the
//!   models.
//! - `models rounding [ELEMENTS]`: a cast to half precision and back, which is one op that rounds
//!   in place, as a share of a memcpy's bandwidth.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interop::OnnxCast;
use tract_onnx_cast::{CastOnnx, ElementType, Rules, tensor_proto};

/// Rounds of which the shortest run counts.
const ROUNDS: usize = 20;

fn main() -> TractResult<()> {
    // `cargo bench` adds an argument of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match &words[..] {
        [] => Ok(()),
        [mode, size @ ..] if mode == "rounding" => {
            rounding(size.first().map_or(Ok(1 << 20), |size| size.parse())?)
        }
        [mode, folders @ ..] if mode == "profile" => profile(folders),
        [mode, small, folder] if mode == "memory" && small == "small" => memory(folder, true),
        [mode, folder] if mode == "memory" => memory(folder, false),
        _ => models(&words),
    }
}

struct Loaded {
    name: String,
    seconds: f64,
    plan: Arc<TypedRunnableModel>,
    inputs: TVec<TValue>,
    shortest: f64,
}

/// The models of folders, with the words before them.
fn all(words: &[String]) -> TractResult<Vec<Loaded>> {
    let mut loaded = vec![];
    let (mut by_stock, mut small) = (false, false);
    for word in words {
        if word == "stock" || word == "small" {
            by_stock |= word == "stock";
            small |= word == "small";
            continue;
        }
        let loader = tract_onnx_cast::onnx().with_small_weights(small);
        loaded.push(load(Path::new(word), by_stock, &loader)?);
        (by_stock, small) = (false, false);
    }
    Ok(loaded)
}

fn profile(words: &[String]) -> TractResult<()> {
    for model in all(words)? {
        let mut shortest: HashMap<usize, f64> = HashMap::new();
        for _ in 0..ROUNDS {
            let mut state = model.plan.spawn()?;
            state.run_plan_with_eval(model.inputs.clone(), |context, state, node, inputs| {
                let start = Instant::now();
                let outputs = tract_onnx::tract_core::plan::eval(context, state, node, inputs);
                let least = shortest.entry(node.id).or_insert(f64::INFINITY);
                *least = least.min(start.elapsed().as_secs_f64());
                outputs
            })?;
        }
        let mut by_name: BTreeMap<String, (usize, f64)> = BTreeMap::new();
        for (node, seconds) in shortest {
            let entry = by_name.entry(model.plan.model().node(node).op.name().into()).or_default();
            *entry = (entry.0 + 1, entry.1 + seconds);
        }
        let mut rows: Vec<_> = by_name.into_iter().collect();
        rows.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        println!("{}:", model.name);
        for (name, (count, seconds)) in rows {
            println!("{:10.3} ms  {count:4} {name}", seconds * 1e3);
        }
    }
    Ok(())
}

fn models(words: &[String]) -> TractResult<()> {
    let mut loaded = all(words)?;
    for _ in 0..ROUNDS {
        for model in &mut loaded {
            let start = Instant::now();
            black_box(model.plan.run(model.inputs.clone())?);
            model.shortest = model.shortest.min(start.elapsed().as_secs_f64());
        }
    }
    let Some((seconds, shortest)) = loaded.first().map(|first| (first.seconds, first.shortest))
    else {
        return Ok(());
    };
    for model in &loaded {
        println!(
            "{}: loads in {:.0} ms ({:.2}), runs in {:.3} ms ({:.2})",
            model.name,
            model.seconds * 1e3,
            model.seconds / seconds,
            model.shortest * 1e3,
            model.shortest / shortest
        );
    }
    Ok(())
}

fn memory(folder: &str, small: bool) -> TractResult<()> {
    let loader = tract_onnx_cast::onnx().with_small_weights(small);
    let loaded = load(Path::new(folder), false, &loader)?;
    black_box(loaded.plan.run(loaded.inputs)?);
    let status = fs::read_to_string("/proc/self/status")?;
    let mebibytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes =
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kibibytes.map_or(0, |kibibytes| kibibytes >> 10)
    };
    println!("{folder}: {} MiB, at most {} MiB", mebibytes("VmRSS"), mebibytes("VmHWM"));
    Ok(())
}

fn load(folder: &Path, by_stock: bool, loader: &CastOnnx) -> TractResult<Loaded> {
    let path = folder.join("model.onnx");
    let start = Instant::now();
    let mut model = if by_stock {
        tract_onnx::onnx().model_for_path(&path)?
    } else {
        loader.model_for_path(&path)?
    };
    let files = (0..).map(|index| folder.join(format!("test_data_set_0/input_{index}.pb")));
    let files: Vec<PathBuf> = files.take_while(|path| path.exists()).collect();
    let mut inputs = tvec!();
    for (index, file) in files.iter().enumerate() {
        let (_, tensor) = tensor_proto::read(&TensorProto::decode(&*fs::read(file)?)?, None)?;
        let fact = InferenceFact::dt_shape(tensor.datum_type(), tensor.shape());
        model.set_input_fact(index, fact)?;
        inputs.push(tensor.into_tvalue());
    }
    let plan = model.into_optimized()?.into_runnable()?;
    let seconds = start.elapsed().as_secs_f64();
    let stock = if by_stock { " (stock)" } else { "" };
    let name = format!("{}{stock}", folder.display());
    Ok(Loaded { name, seconds, plan, inputs, shortest: f64::INFINITY })
}

fn rounding(elements: usize) -> TractResult<()> {
    for half in [ElementType::Float16, ElementType::BFloat16] {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact([elements]))?;
        let casts = [(ElementType::Float, half), (half, ElementType::Float)];
        let mut wires = tvec!(x);
        for (from, to) in casts {
            let cast = OnnxCast::new("cast", from, to, Rules::default());
            wires = model.wire_node(format!("to-{to}"), cast, &wires)?;
        }
        model.select_output_outlets(&wires)?;
        let plan = model.into_optimized()?.into_runnable()?;
        let floats: Vec<f32> = (0..elements).map(|i| i as f32 / 7.0).collect();
        let source = vec![1u8; 4 * elements];
        let mut target = vec![2u8; 4 * elements];
        let (mut ours, mut memcpy) = (f64::INFINITY, f64::INFINITY);
        // The tensor comes back and is rounded again, so that its buffer is nobody else's.
        let mut tensor = tensor1(&floats).into_tvalue();
        for _ in 0..40 * ROUNDS {
            let start = Instant::now();
            tensor = plan.run(tvec!(tensor))?.swap_remove(0);
            ours = ours.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            black_box(&mut target).copy_from_slice(black_box(&source));
            memcpy = memcpy.min(start.elapsed().as_secs_f64());
        }
        println!(
            "{half}: {:.4} ns an element, {:.2} of a memcpy's bandwidth",
            ours * 1e9 / elements as f64,
            memcpy / ours
        );
    }
    Ok(())
}
