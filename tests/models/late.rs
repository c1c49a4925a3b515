//! A large matrix stays in its file: what a run reads of it is what its nodes take.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use test_tools::tempfile;
use tract_nnef::framework::Nnef;
use tract_onnx::data_resolver::{FopenDataResolver, ModelDataResolver};
use tract_onnx::pb::GraphProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interop::WithOnnxCast;
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::{
    CastOnnx, Conversion, ElementType, HalfArithmetic, OnnxTensor, Result, Rules, tensor_proto,
};

use crate::common::proto::{
    Sketch, bytes, external, graph_attribute, int, int64, ints, raw, tensor, tensor_attribute,
};

use ElementType::{BFloat16, Bool, Float, Float16, Int4, Int8, Int64, Uint4, Uint8};

/// Rows and columns of more than 4 MiB in halves; the last block of columns has one of them.
const SIZES: [usize; 2] = [3 * 960 + 1, 1024];

/// The vocabulary of a language model: rows of it are taken, and its transpose is what the scores
/// are computed by.
fn tied(ty: ElementType) -> Sketch {
    let [rows, columns] = SIZES.map(|size| size as i64);
    // Of numbers as short as these all sums are exact, in whatever order.
    let values = (0..rows * columns).map(|i| (i * 7919 % 61 - 30) as f32 / 64.0);
    let mut weight = tensor("w", ty, &values.collect::<Vec<f32>>());
    weight.dims = vec![rows, columns];
    Sketch::new()
        .input("ids", Int64, &[2, 2])
        .initializer(weight)
        .node("Gather", &["w", "ids"], &["x"], vec![])
        .node("Transpose", &["w"], &["t"], vec![ints("perm", &[1, 0])])
        .node("MatMul", &["x", "t"], &["y"], vec![])
        .output("y", ty, &[2, 2, rows])
        .output("x", ty, &[2, 2, columns])
}

/// Reads files, and counts the bytes.
#[derive(Default)]
struct Counting {
    all: AtomicUsize,
    most: Mutex<usize>,
}

impl ModelDataResolver for Counting {
    fn read_bytes_from_path(
        &self,
        buf: &mut Vec<u8>,
        path: &Path,
        offset: usize,
        length: Option<usize>,
    ) -> TractResult<()> {
        FopenDataResolver.read_bytes_from_path(buf, path, offset, length)?;
        self.all.fetch_add(buf.len(), Ordering::Relaxed);
        let mut most = self.most.lock().expect("a number");
        *most = buf.len().max(*most);
        Ok(())
    }
}

/// The model in a folder, with its weight beside it.
fn saved(sketch: Sketch, folder: &Path) -> Result<std::path::PathBuf> {
    let mut model = sketch.model();
    let graph = holder(model.graph.as_mut().expect("a graph")).expect("a weight");
    let weight = graph.initializer.remove(0);
    std::fs::write(folder.join("w.bin"), &weight.raw_data).expect("a file");
    graph.initializer.push(external(weight, "w.bin", Some(0)));
    let path = folder.join("model.onnx");
    std::fs::write(&path, bytes(&model)).expect("a file");
    Ok(path)
}

/// The graph that holds a weight: this one, or a body in it.
fn holder(graph: &mut GraphProto) -> Option<&mut GraphProto> {
    if !graph.initializer.is_empty() {
        return Some(graph);
    }
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    attributes.filter_map(|attribute| attribute.g.as_mut()).find_map(holder)
}

fn ids() -> Tensor {
    let last = SIZES[0] as i64 - 1;
    Tensor::from_shape(&[2, 2], &[3, -1, last, 3]).expect("four")
}

#[test]
fn a_tied_vocabulary_is_read_once_and_a_few_rows() -> Result<()> {
    for ty in [Float, Float16] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = saved(tied(ty), folder.path())?;
        let planned = tied(ty).run(vec![ids()]).expect("a plan");
        let counting = Arc::new(Counting::default());
        let onnx = tract_onnx::Onnx { provider: counting.clone(), ..tract_onnx::onnx() };
        let model = Interpreter::open(CastOnnx::from(onnx), &path)?;
        let made = model.run(vec![OnnxTensor::new(Int64, ids())?])?;
        let made: Vec<Tensor> = made.into_iter().map(OnnxTensor::into_tensor).collect();
        assert!(planned == made, "{ty}");
        let [rows, columns] = SIZES;
        let row = columns * ty.datum_type().size_of();
        let all = counting.all.load(Ordering::Relaxed);
        // Its last byte is looked for before.
        assert_eq!(all, row * (rows + 4) + 1, "{ty}");
        assert!(*counting.most.lock().expect("a number") <= 1 << 20);
    }
    Ok(())
}

/// Weights that are packed as they are read: a plan in any form makes the same of them, and NNEF
/// has them whole.
#[test]
fn a_plan_of_a_tied_vocabulary_in_a_file_is_any_plan() -> TractResult<()> {
    let folder = tempfile::tempdir()?;
    let path = saved(tied(Float), folder.path())?;
    let typed = || tract_onnx_cast::onnx().model_for_path(&path)?.into_typed();
    let run = |model: TypedModel| model.into_runnable()?.run(tvec!(ids().into_tvalue()));
    let expected = tied(Float).run(vec![ids()]).expect("weights in memory");
    let expected: TVec<TValue> = expected.into_iter().map(IntoTValue::into_tvalue).collect();
    let nnef: Nnef = tract_nnef::nnef().with_onnx().with_onnx_cast();
    let written = nnef.write_to_tar(&typed()?.into_decluttered()?, vec![])?;
    assert!(run(typed()?)? == expected, "typed");
    assert!(run(typed()?.into_decluttered()?)? == expected, "decluttered");
    assert!(run(typed()?.into_optimized()?)? == expected, "optimised");
    drop(folder);
    let back = nnef.model_for_read(&mut &*written)?;
    assert!(run(back.into_optimized()?)? == expected, "NNEF");
    Ok(())
}

/// A file is opened once for all the pieces of a part: once it is open it may go.
#[cfg(unix)]
#[test]
fn a_part_is_read_of_one_open_file() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    saved(tied(Float), folder.path())?;
    let held = external(tied(Float).0.initializer.remove(0), "w.bin", Some(0));
    let (_, late) = tensor_proto::read_late(&held, Some(folder.path()))?;
    let file = folder.path().join("w.bin");
    let pieces = Arc::new(AtomicUsize::new(0));
    let counted = pieces.clone();
    let altered = tensor_proto::altered(&late, move |_, _| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            std::fs::remove_file(&file).expect("a file");
        }
    });
    let part = altered.expect("a late matrix").slice(0, 0, SIZES[0]).expect("an open file");
    let expected = tensor_proto::read(&tied(Float).0.initializer.remove(0), None)?.1;
    assert!(part == expected);
    assert!(pieces.load(Ordering::Relaxed) > 10);
    Ok(())
}

#[test]
fn a_product_in_blocks_has_run_once() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = saved(tied(Float16), folder.path())?;
    let onnx = tract_onnx_cast::onnx().with_half_arithmetic(HalfArithmetic::Widened);
    let audit = onnx.clone().with_probes(true).load(&path)?.audit();
    let model = Interpreter::open(onnx, &path)?;
    model.watch(&audit);
    for runs in 1..3 {
        model.run(vec![OnnxTensor::new(Int64, ids())?])?;
        let rows = audit.rows();
        let product = rows.iter().find(|row| row.cast.output == "y").expect("a rounding");
        let elements = 4 * SIZES[0] as u64;
        assert_eq!((product.runs, product.stats.elements()), (runs, runs * elements));
    }
    Ok(())
}

/// The product by a matrix of so many rows and columns.
fn product(depth: i64, columns: i64) -> Sketch {
    let values = (0..depth * columns).map(|i| (i * 7919 % 61 - 30) as f32 / 64.0);
    let mut weight = tensor("w", Float, &values.collect::<Vec<f32>>());
    weight.dims = vec![depth, columns];
    Sketch::new()
        .input("x", Float, &[3, depth])
        .initializer(weight)
        .node("MatMul", &["x", "w"], &["y"], vec![])
        .output("y", Float, &[3, columns])
}

/// A matrix that is no transpose is read in blocks of columns, each row in as many parts.
#[test]
fn a_product_by_a_matrix_in_a_file_is_that_of_a_plan() -> Result<()> {
    let [columns, depth] = [42 * 192 + 1, 1024];
    let counting = assert_planned_of_a_file(|| product(depth, columns), depth)?;
    let all = counting.all.load(Ordering::Relaxed) as i64;
    assert_eq!(all, 4 * depth * columns + 1);
    assert!(*counting.most.lock().expect("a number") <= 1 << 20);
    Ok(())
}

/// Of short rows many are read whole at once, for each block of columns again.
#[test]
fn a_product_by_a_matrix_of_short_rows_is_that_of_a_plan() -> Result<()> {
    let [columns, depth] = [576 + 301, 1 << 14];
    let counting = assert_planned_of_a_file(|| product(depth, columns), depth)?;
    let all = counting.all.load(Ordering::Relaxed) as i64;
    assert_eq!(all, 2 * 4 * depth * columns + 1);
    let most = *counting.most.lock().expect("a number");
    assert!(most.is_multiple_of(4 * columns as usize) && most <= 1 << 18, "{most}");
    Ok(())
}

/// A smaller one is packed as it is read, whichever of its axes is summed over, and widened in
/// between.
#[test]
fn weights_that_are_packed_as_they_are_read_are_those_of_a_plan() -> Result<()> {
    let [depth, columns] = [700, 1001];
    for (ty, is_turned) in
        [Float, Float16, BFloat16].into_iter().flat_map(|ty| [(ty, false), (ty, true)])
    {
        let sketch = || {
            let values = (0..depth * columns).map(|i| (i * 7919 % 61 - 30) as f32 / 64.0);
            let mut weight = tensor("w", ty, &values.collect::<Vec<f32>>());
            weight.dims = if is_turned { vec![columns, depth] } else { vec![depth, columns] };
            let gemm = if is_turned { vec![int("transB", 1)] } else { vec![] };
            Sketch::new()
                .input("x", ty, &[3, depth])
                .initializer(weight)
                .node("Gemm", &["x", "w"], &["y"], gemm)
                .output("y", ty, &[3, columns])
        };
        let values: Vec<f32> = (0..3 * depth).map(|i| (i * 31 % 17 - 8) as f32 / 8.0).collect();
        let x = Conversion::new(Float, ty, Rules::default());
        let x = x.run(&Tensor::from_shape(&[3, depth as usize], &values).expect("as many"))?;
        let folder = tempfile::tempdir().expect("a folder");
        let path = saved(sketch(), folder.path())?;
        let counting = Arc::new(Counting::default());
        let onnx = tract_onnx::Onnx { provider: counting.clone(), ..tract_onnx::onnx() };
        let made = Interpreter::open(CastOnnx::from(onnx), &path)?;
        let made = made.run(vec![OnnxTensor::new(ty, x.clone())?])?;
        let planned = sketch().run(vec![x]).expect("a plan");
        assert!(made.iter().map(OnnxTensor::tensor).eq(&planned), "{ty}, {is_turned}");
        let all = counting.all.load(Ordering::Relaxed);
        assert_eq!(all, (depth * columns) as usize * ty.datum_type().size_of() + 1);
        // Pieces of a matrix that is read as a whole are of 2¹⁸ bytes.
        let (most, rows) =
            (*counting.most.lock().expect("a number"), if is_turned { depth } else { columns });
        let row = rows as usize * ty.datum_type().size_of();
        assert!(most.is_multiple_of(row) && most <= 1 << 19, "{ty}, {is_turned}: {most}");
    }
    Ok(())
}

/// A matrix of codes is dequantised as far as its nodes take it, whichever way its scales lie.
#[test]
fn what_is_dequantised_in_parts_is_what_a_plan_dequantises() -> Result<()> {
    /// Notes which of what is made is not in memory.
    #[derive(Default)]
    struct Late(Vec<String>);
    impl Observer for Late {
        fn node(&mut self, _: &NodeRun, made: &mut [Option<ObservedTensor>]) -> Result<()> {
            let late = made.iter().flatten().filter(|made| made.tensor.as_plain_ram().is_none());
            self.0.extend(late.map(|made| made.name.to_string()));
            Ok(())
        }
    }
    // Rows of codes of 4 bits begin in the middle of a byte.
    let [rows, columns] = [1026, 1031];
    let layouts: [(&[i64], i64, i64); 5] = [
        (&[], 0, 0),
        (&[rows], 0, 0),
        (&[columns], 1, 0),
        (&[33, columns], 0, 32),
        (&[rows, 65], 1, 16),
    ];
    for (ty, (shape, axis, block)) in [Uint4, Int4, Int8, Uint8].into_iter().cycle().zip(layouts) {
        let numbers = |count: i64, step: i64, size: i64| {
            (0..count).map(|i| (i * step % size) as f32).collect::<Vec<f32>>()
        };
        let held = |name: &str, ty, shape: &[i64], step, size| {
            let mut held = tensor(name, ty, &numbers(shape.iter().product(), step, size));
            held.dims = shape.to_vec();
            held
        };
        let sketch = Sketch::new()
            .input("ids", Int64, &[2, 2])
            .initializer(held("codes", ty, &[rows, columns], 7919, 8))
            .initializer(held("scale", Float, shape, 31, 7))
            .initializer(held("zero", ty, shape, 17, 5))
            .node(
                "DequantizeLinear",
                &["codes", "scale", "zero"],
                &["w"],
                vec![int("axis", axis), int("block_size", block)],
            )
            .node("Gather", &["w", "ids"], &["x"], vec![])
            .node("Transpose", &["w"], &["t"], vec![ints("perm", &[1, 0])])
            .node("MatMul", &["x", "t"], &["y"], vec![])
            .initializer(held("v", Float, &[3, rows], 13, 4))
            .node("MatMul", &["v", "w"], &["z"], vec![])
            .output("x", Float, &[2, 2, columns])
            .output("y", Float, &[2, 2, rows])
            .output("z", Float, &[3, columns]);
        let ids = Tensor::from_shape(&[2, 2], &[3, -1, rows - 1, 3]).expect("four");
        let model = Interpreter::of_proto(tract_onnx_cast::onnx(), sketch.clone().model(), None)?;
        let planned = sketch.run(vec![ids.clone()]).expect("a plan");
        let mut late = Late::default();
        let made = model.run_observed(vec![OnnxTensor::new(Int64, ids)?], &mut late)?;
        assert!(made.iter().map(OnnxTensor::tensor).eq(&planned), "{ty} {shape:?}");
        assert_eq!(late.0, ["w", "t"]);
    }
    Ok(())
}

/// A matrix of 7 bits and more digits than products are exact in, which a node makes of codes.
fn coded(sketch: Sketch, shape: [i64; 2]) -> Sketch {
    let values = (0..shape[0] * shape[1]).map(|i| (i * 7919 % 251 - 125) as f32);
    let mut codes = tensor("codes", Int8, &values.collect::<Vec<f32>>());
    codes.dims = shape.to_vec();
    let mut scale = tensor("scale", Float, &[0.1]);
    scale.dims = vec![];
    let sketch = sketch.initializer(codes).initializer(scale);
    sketch.node("DequantizeLinear", &["codes", "scale"], &["w"], vec![])
}

/// Codes that stay in their file are read once for a product, though it is in blocks.
#[test]
fn codes_in_a_file_are_read_once_for_a_product() -> Result<()> {
    let [depth, columns] = [1024, 3 * 4096 + 1];
    let sketch = || {
        coded(Sketch::new().input("x", Float, &[3, depth]), [depth, columns])
            .node("MatMul", &["x", "w"], &["y"], vec![])
            .output("y", Float, &[3, columns])
    };
    let counting = assert_planned_of_a_file(sketch, depth)?;
    assert_eq!(counting.all.load(Ordering::Relaxed) as i64, depth * columns + 1);
    Ok(())
}

/// A body that runs three times reads the weight of its product once, also that of a branch in it
/// and that of the graph around it.
#[test]
fn a_weight_of_a_body_is_read_once() -> Result<()> {
    let [depth, columns] = [700, 1001];
    let weighted = |sketch: Sketch| {
        let values = (0..depth * columns).map(|i| (i * 7919 % 61 - 30) as f32 / 64.0);
        let mut weight = tensor("w", Float, &values.collect::<Vec<f32>>());
        weight.dims = vec![depth, columns];
        sketch.initializer(weight)
    };
    let product = |sketch: Sketch, u: &str| {
        sketch.node("MatMul", &["v", "w"], &[u], vec![]).output(u, Float, &[columns])
    };
    let whole = |sketch: Sketch| {
        let sketch = sketch.input("x", Float, &[3, depth]);
        sketch.output("y", Float, &[3, columns])
    };
    let iteration = || {
        let sketch = Sketch::new().input("i", Int64, &[]).input("c", Bool, &[]);
        let sketch = sketch.node("Identity", &["c"], &["again"], vec![]);
        sketch.node("Gather", &["x", "i"], &["v"], vec![]).output("again", Bool, &[])
    };
    let looped = |sketch: Sketch, body: Sketch| {
        let count = tensor_attribute("value", raw("n", Int64 as i32, &[], &3i64.to_le_bytes()));
        let body = vec![graph_attribute("body", body.0)];
        let sketch = whole(sketch).node("Constant", &[], &["n"], vec![count]);
        sketch.node("Loop", &["n", ""], &["y"], body)
    };
    let scanned = |body: Sketch| {
        let body = vec![graph_attribute("body", body.0), int("num_scan_inputs", 1)];
        whole(Sketch::new()).node("Scan", &["x"], &["y"], body)
    };
    let zeros = tensor("zeros", Float, &vec![0.0; columns as usize]);
    let otherwise = Sketch::new().initializer(zeros).node("Identity", &["zeros"], &["u"], vec![]);
    let branches = vec![
        graph_attribute("then_branch", product(weighted(Sketch::new()), "u").0),
        graph_attribute("else_branch", otherwise.output("u", Float, &[columns]).0),
    ];
    let branching = iteration().node("If", &["c"], &["b"], branches);
    let models = [
        ("Loop", looped(Sketch::new(), product(weighted(iteration()), "u"))),
        ("Scan", scanned(product(weighted(Sketch::new().input("v", Float, &[depth])), "u"))),
        ("If", looped(Sketch::new(), branching.output("b", Float, &[columns]))),
        ("outside", looped(weighted(Sketch::new()), product(iteration(), "u"))),
    ];
    let alone = weighted(whole(Sketch::new())).node("MatMul", &["x", "w"], &["y"], vec![]);
    let values: Vec<f32> = (0..3 * depth).map(|i| (i * 31 % 17 - 8) as f32 / 8.0).collect();
    let x = Tensor::from_shape(&[3, depth as usize], &values).expect("as many");
    let expected = alone.run(vec![x.clone()]).expect("a plan");
    for (what, sketch) in models {
        let (made, counting) = of_a_file(sketch, &x)?;
        assert!(made.iter().map(OnnxTensor::tensor).eq(&expected), "{what}");
        assert_eq!(counting.all.load(Ordering::Relaxed) as i64, 4 * depth * columns + 1, "{what}");
    }
    Ok(())
}

/// Holds what a model of FLOAT x, of 3 rows, makes node by node of its first weight in a file
/// against its plan; the result has counted what was read.
fn assert_planned_of_a_file(sketch: impl Fn() -> Sketch, depth: i64) -> Result<Arc<Counting>> {
    let values: Vec<f32> = (0..3 * depth).map(|i| (i * 31 % 17 - 8) as f32 / 8.0).collect();
    let x = Tensor::from_shape(&[3, depth as usize], &values).expect("as many");
    let (made, counting) = of_a_file(sketch(), &x)?;
    let planned = sketch().run(vec![x]).expect("a plan");
    assert!(made.iter().map(OnnxTensor::tensor).eq(&planned));
    Ok(counting)
}

/// What a model of FLOAT x makes node by node, its weight in a file, and what was read of that.
fn of_a_file(sketch: Sketch, x: &Tensor) -> Result<(Vec<OnnxTensor>, Arc<Counting>)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = saved(sketch, folder.path())?;
    let counting = Arc::new(Counting::default());
    let onnx = tract_onnx::Onnx { provider: counting.clone(), ..tract_onnx::onnx() };
    let model = Interpreter::open(CastOnnx::from(onnx), &path)?;
    Ok((model.run(vec![OnnxTensor::new(Float, x.clone())?])?, counting))
}

/// Holds what a model makes node by node against its plan.
fn assert_planned(sketch: Sketch, given: Vec<OnnxTensor>) -> Result<()> {
    let model = Interpreter::of_proto(tract_onnx_cast::onnx(), sketch.clone().model(), None)?;
    let inputs = given.iter().map(|given| given.tensor().clone()).collect();
    let planned = sketch.run(inputs).expect("a plan");
    let made = model.run(given)?;
    assert!(made.iter().map(OnnxTensor::tensor).eq(&planned));
    Ok(())
}

#[test]
fn a_last_column_is_summed_as_the_others() -> Result<()> {
    const DEPTH: i64 = 8192;
    for columns in [193, 385] {
        let sketch = coded(Sketch::new().input("x", Float, &[5, DEPTH]), [DEPTH, columns])
            .node("MatMul", &["x", "w"], &["y"], vec![])
            .output("y", Float, &[5, columns]);
        let values: Vec<f32> = (0..5 * DEPTH).map(|i| (i * 31 % 97) as f32 / 7.0).collect();
        let x = Tensor::from_shape(&[5, DEPTH as usize], &values).expect("as many");
        assert_planned(sketch, vec![OnnxTensor::new(Float, x)?])?;
    }
    Ok(())
}

/// tract gives the tensor another shape, and what holds it does not know.
#[test]
fn what_is_reshaped_has_other_rows() -> Result<()> {
    let [rows, columns] = [1200, 1000];
    let turned = vec![ints("perm", &[1, 0])];
    let sketch = coded(Sketch::new().input("ids", Int64, &[2, 2]), [rows, columns])
        .initializer(int64("shape", &[columns, rows]))
        .node("Reshape", &["w", "shape"], &["r"], vec![])
        .node("Gather", &["r", "ids"], &["gathered"], vec![])
        .node("Transpose", &["r"], &["t"], turned.clone())
        .node("Gather", &["t", "ids"], &["across"], vec![])
        .node("MatMul", &["gathered", "t"], &["y"], vec![])
        .initializer(int64("flat", &[1, rows * columns]))
        .node("Reshape", &["t", "flat"], &["row"], vec![])
        .node("Transpose", &["row"], &["column"], turned)
        .node("Gather", &["column", "ids"], &["few"], vec![])
        .output("gathered", Float, &[2, 2, rows])
        .output("across", Float, &[2, 2, columns])
        .output("y", Float, &[2, 2, columns])
        .output("few", Float, &[2, 2, 1]);
    let ids = Tensor::from_shape(&[2, 2], &[3i64, -1, 999, 3]).expect("four");
    assert_planned(sketch, vec![OnnxTensor::new(Int64, ids)?])
}

#[test]
fn whatever_asks_for_all_of_it_gets_it() -> Result<()> {
    /// Asks for what it is shown.
    struct Asks(Vec<Tensor>);
    impl Observer for Asks {
        fn node(&mut self, _: &NodeRun, _: &mut [Option<ObservedTensor>]) -> Result<()> {
            Ok(())
        }

        fn constant(&mut self, constant: &mut ObservedTensor) -> Result<()> {
            assert!(constant.tensor.as_plain_ram().is_none());
            let turned = constant.tensor.slice(1, 5, 6).expect("a column");
            self.0.push(turned);
            let mut changed = Tensor::clone(&constant.tensor);
            changed.as_bytes_mut()[..2].fill(0);
            constant.tensor = changed.into();
            Ok(())
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let sketch = tied(BFloat16).output("w", BFloat16, &SIZES.map(|size| size as i64));
    let path = saved(sketch, folder.path())?;
    let model = Interpreter::open(tract_onnx_cast::onnx(), &path)?;
    let plain = model.run(vec![OnnxTensor::new(Int64, ids())?])?;
    let weight = plain.last().expect("the weight").tensor();
    assert!(weight.as_plain_ram().is_some());
    let mut asks = Asks(vec![]);
    let changed = model.run_observed(vec![OnnxTensor::new(Int64, ids())?], &mut asks)?;
    assert_eq!(asks.0, [weight.slice(1, 5, 6).expect("a column")]);
    let changed = changed.last().expect("the weight").tensor();
    assert_eq!(changed.as_bytes()[..2], [0, 0]);
    assert_ne!(weight.as_bytes()[..2], [0, 0]);
    assert_eq!(changed.as_bytes()[2..], weight.as_bytes()[2..]);
    Ok(())
}

/// Has every third number of FLOAT be 0, given how many bytes stand before.
fn thinned(before: usize, bytes: &mut [u8]) {
    let first = before / size_of::<f32>();
    for (place, word) in (first..).zip(bytes.as_chunks_mut::<4>().0) {
        if place % 3 == 0 {
            *word = [0; 4];
        }
    }
}

#[test]
fn what_is_altered_is_so_wherever_it_is_read() -> Result<()> {
    /// Alters what it is shown.
    struct Alters;
    impl Observer for Alters {
        fn node(&mut self, _: &NodeRun, _: &mut [Option<ObservedTensor>]) -> Result<()> {
            Ok(())
        }

        fn constant(&mut self, constant: &mut ObservedTensor) -> Result<()> {
            let altered = tensor_proto::altered(&constant.tensor, thinned).expect("in its file");
            assert!(altered.as_plain_ram().is_none());
            assert!(tensor_proto::altered(&altered, thinned).is_none());
            constant.tensor = altered.into();
            Ok(())
        }
    }
    let mut sketch = tied(Float);
    let folder = tempfile::tempdir().expect("a folder");
    let model = Interpreter::open(tract_onnx_cast::onnx(), &saved(tied(Float), folder.path())?)?;
    let made = model.run_observed(vec![OnnxTensor::new(Int64, ids())?], &mut Alters)?;
    thinned(0, &mut sketch.0.initializer[0].raw_data);
    let weight = tensor_proto::read(&sketch.0.initializer[0], None)?.1;
    let planned = sketch.run(vec![ids()]).expect("a plan");
    assert!(made.iter().map(OnnxTensor::tensor).eq(&planned));
    let mut held = external(tied(Float).0.initializer.remove(0), "w.bin", Some(0));
    held.name = "w".into();
    let late = tensor_proto::read_late(&held, Some(folder.path()))?.1;
    let altered = tensor_proto::altered(&late, thinned).expect("in its file");
    // Rows, columns of which each row is a piece, and then all.
    for (axis, start, end) in [(0, 7, 9), (1, 1, 1023), (1, 5, 6), (0, 0, SIZES[0])] {
        let [part, wanted] = [&altered, &weight].map(|whole| whole.slice(axis, start, end));
        assert!(part.expect("a part") == wanted.expect("a part"), "{axis} {start}");
    }
    Ok(())
}

#[test]
fn a_file_that_does_not_hold_it_is_refused_at_once() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = saved(tied(Float), folder.path())?;
    let file = std::fs::File::options().write(true).open(folder.path().join("w.bin"));
    let file = file.expect("a file");
    file.set_len(file.metadata().expect("a file").len() - 1).expect("a shorter file");
    let opened = Interpreter::open(tract_onnx_cast::onnx(), &path);
    let error = opened.err().expect("no such weight");
    assert!(error.to_string().contains("tensor `w`"), "{error}");
    Ok(())
}
