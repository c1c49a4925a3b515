//! Where tract's own cast gives the same bits, and what follows from it: transforms there and back,
//! fusions.

use crate::common::elements::{codes_of_tensor, numeric, samples, tensor_of_codes};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_core::runtime::runtime_for_name;
use tract_onnx::tract_core::transform::get_transform;

use tract_onnx_cast::interop::OnnxCast;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

/// A tensor's codes, those of NaN as one.
fn codes(ty: ElementType, tensor: &Tensor) -> Vec<u64> {
    let one_nan = |code| match ty.family() {
        Family::Float(format) if format.is_nan(code) => u64::MAX,
        _ => code,
    };
    codes_of_tensor(ty, tensor).into_iter().map(one_nan).collect()
}

#[test]
fn tract_s_own_cast_is_taken_for_ours_only_where_it_is() {
    let native = || numeric().filter(|ty| !ty.is_exotic());
    for from in native() {
        let input = tensor_of_codes(from, &samples(from, 50_000));
        for to in native() {
            let ours = Conversion::new(from, to, Rules::default());
            let core = input.cast_to_dt(to.datum_type()).unwrap();
            let (core, output) = (codes(to, &core), codes(to, &ours.run(&input).unwrap()));
            let differs = (0..core.len()).find(|index| core[*index] != output[*index]);
            match differs {
                Some(index) => {
                    let what = format!("{from} to {to} of element {index}");
                    assert!(
                        !ours.equals_core_cast(),
                        "{what}: {:x} {:x}",
                        core[index],
                        output[index]
                    );
                }
                // tract rounds DOUBLE to FLOAT16 in one step or two, as the CPU has it.
                None if (from, to) == (ElementType::Double, ElementType::Float16) => {}
                None => assert!(ours.equals_core_cast(), "{from} to {to}"),
            }
        }
        for exotic in
            ElementType::ALL.iter().filter(|ty| ty.is_exotic() || **ty == ElementType::String)
        {
            assert!(!Conversion::new(from, *exotic, Rules::default()).equals_core_cast());
            assert!(!Conversion::new(*exotic, from, Rules::default()).equals_core_cast());
        }
    }
}

/// The casts of a model: tract's own, ours.
fn casts(model: &TypedModel) -> (usize, usize) {
    let count = |is: fn(&TypedNode) -> bool| model.nodes().iter().filter(|node| is(node)).count();
    (count(|node| node.op_is::<Cast>()), count(|node| node.op_is::<OnnxCast>()))
}

fn transform(name: &str, model: &mut TypedModel) {
    get_transform(name).unwrap().expect("registered").transform(model).unwrap();
}

/// FLOAT16 to FLOAT, a product, and back, then to INT8: the first two are tract's own casts too,
/// the last is not.
fn half_product() -> TypedModel {
    let mut model = TypedModel::default();
    let cast = |from, to| OnnxCast::new("cast", from, to, Rules::default());
    let x = model.add_source("x", f16::fact([4usize, 8])).unwrap();
    let wide = model.wire_node("wide", cast(ElementType::Float16, ElementType::Float), &[x]);
    let wide = wide.unwrap()[0];
    let doubled = model.wire_node("doubled", math::add(), &[wide, wide]).unwrap()[0];
    let half = cast(ElementType::Float, ElementType::Float16);
    let half = model.wire_node("half", half, &[doubled]).unwrap()[0];
    let bytes = cast(ElementType::Float, ElementType::Int8);
    let bytes = model.wire_node("bytes", bytes, &[doubled]).unwrap()[0];
    model.select_output_outlets(&[half, bytes]).unwrap();
    model.into_decluttered().unwrap()
}

fn run(model: TypedModel) -> TVec<TValue> {
    let input = Tensor::from_shape(
        &[4, 8],
        &(0..32).map(|i| f16::from_f32(i as f32 * 7.3)).collect::<Vec<_>>(),
    );
    model.into_runnable().unwrap().run(tvec!(input.unwrap().into_tvalue())).unwrap()
}

#[test]
fn transforms_exchange_casts_for_tract_s_own_and_back() {
    let mut model = half_product();
    let expected = run(model.clone());
    assert_eq!(casts(&model), (0, 3));
    transform("onnx_cast_to_core", &mut model);
    assert_eq!(casts(&model), (2, 1));
    assert_eq!(run(model.clone()), expected);
    transform("onnx_cast_to_kernels", &mut model);
    assert_eq!(casts(&model), (0, 3));
    assert_eq!(run(model), expected);
}

#[test]
fn the_runtime_runs_tract_s_own_casts_with_our_kernels() {
    let mut model = half_product();
    let expected = run(model.clone());
    transform("onnx_cast_to_core", &mut model);
    let runtime = runtime_for_name("onnx-cast").unwrap().expect("registered");
    let runnable = runtime.prepare(model).unwrap();
    assert_eq!(casts(runnable.typed_model().unwrap()), (0, 3));
    let input = Tensor::from_shape(
        &[4, 8],
        &(0..32).map(|i| f16::from_f32(i as f32 * 7.3)).collect::<Vec<_>>(),
    );
    assert_eq!(runnable.run(tvec!(input.unwrap().into_tvalue())).unwrap(), expected);
}

/// tract's change of precision does not know our op, and leaves it with an input of another type.
#[test]
fn a_model_whose_float_precision_was_changed_runs() {
    let mut model = TypedModel::default();
    let cast = |from, to| OnnxCast::new("cast", from, to, Rules::default());
    let x = model.add_source("x", f32::fact([3usize])).unwrap();
    let doubled = model.wire_node("doubled", math::add(), &[x, x]).unwrap()[0];
    let to_int = cast(ElementType::Float, ElementType::Int64);
    let integers = model.wire_node("integers", to_int, &[doubled]).unwrap()[0];
    let to_f8 = cast(ElementType::Float, ElementType::Float8E4M3FN);
    let float8 = model.wire_node("float8", to_f8, &[doubled]).unwrap()[0];
    model.select_output_outlets(&[integers, float8]).unwrap();
    let mut model = model.into_decluttered().unwrap();
    transform("f32_to_f16", &mut model);
    for model in [model.clone(), model.into_optimized().unwrap()] {
        let input = tensor1(&[1.25f32, -3.0, 100.0]).cast_to::<f16>().unwrap().into_owned();
        let outputs = model.into_runnable().unwrap().run(tvec!(input.into_tvalue())).unwrap();
        assert_eq!(*outputs[0], tensor1(&[2i64, -6, 200]));
        assert_eq!(*outputs[1], tensor1(&[0x42u8, 0xCC, 0x74]));
    }
}
