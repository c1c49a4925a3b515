//! Where outputs live: recycled buffers and casts in place change no results and outlive their
//! plans.

use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::*;
use tract_onnx_cast::interop::OnnxCast;
use tract_onnx_cast::{Conversion, ElementType, Rules};

const LARGE: usize = 1 << 20;

fn numbers(seed: usize) -> Tensor {
    let elements: Vec<f32> = (0..LARGE).map(|i| ((i * 31 + seed) % 1000) as f32 - 500.5).collect();
    tensor1(&elements)
}

fn wire(
    model: &mut TypedModel,
    from: ElementType,
    to: ElementType,
    input: OutletId,
) -> TractResult<OutletId> {
    let name = format!("{from}_{to}_{}", model.nodes.len());
    Ok(model.wire_node(&name, OnnxCast::new(&name, from, to, Rules::default()), &[input])?[0])
}

/// FLOAT → INT32 → FLOAT → FLOAT16 → FLOAT: same widths, that run in place, and different ones.
fn chain() -> TractResult<Arc<TypedRunnableModel>> {
    let mut model = TypedModel::default();
    let mut outlet = model.add_source("x", f32::fact([LARGE]))?;
    let types = [
        ElementType::Float,
        ElementType::Int32,
        ElementType::Float,
        ElementType::Float16,
        ElementType::Float,
    ];
    for pair in types.windows(2) {
        outlet = wire(&mut model, pair[0], pair[1], outlet)?;
    }
    model.select_output_outlets(&[outlet])?;
    model.into_optimized()?.into_runnable()
}

#[test]
fn recycled_buffers_do_not_leak_into_each_other() -> TractResult<()> {
    let plan = chain()?;
    let truncated = |x: &Tensor| -> TractResult<Vec<f32>> {
        Ok(x.try_as_plain_ram()?.as_slice::<f32>()?.iter().map(|x| x.trunc()).collect())
    };
    let mut kept = vec![];
    for seed in 0..6 {
        let x = numbers(seed);
        let y = plan.run(tvec!(x.clone().into_tvalue()))?.remove(0);
        kept.push((truncated(&x)?, y));
    }
    // All of them again, after later runs had their chance to overwrite a buffer that was still in
    // use.
    for (expected, y) in &kept {
        assert_eq!(y.try_as_plain_ram()?.as_slice::<f32>()?, expected);
    }
    drop(plan);
    let (expected, y) = kept.pop().context("runs")?;
    drop(kept);
    let moved = y.into_tensor().into_plain_array::<f32>()?;
    assert_eq!(moved.as_slice().context("contiguous")?, expected);
    Ok(())
}

#[test]
fn several_threads_share_what_a_plan_keeps() {
    let plan = chain().expect("a plan");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let plan = plan.clone();
            scope.spawn(move || {
                for run in 0..10 {
                    let x = numbers(thread * 100 + run);
                    let expected: Vec<f32> = {
                        let view = x.try_as_plain_ram().expect("plain");
                        view.as_slice::<f32>().expect("floats").iter().map(|x| x.trunc()).collect()
                    };
                    let y = plan.run(tvec!(x.into_tvalue())).expect("a run").remove(0);
                    let view = y.try_as_plain_ram().expect("plain");
                    assert_eq!(view.as_slice::<f32>().expect("floats"), expected);
                }
            });
        }
    });
}

#[test]
fn a_cast_in_place_equals_one_that_is_not() -> TractResult<()> {
    for length in [0, 1, 7, 511, 1024, 4097] {
        for from in ElementType::ALL.iter().copied() {
            let texts: Vec<String> = (0..length).map(|i| (i % 2).to_string()).collect();
            let parse = Conversion::new(ElementType::String, from, Rules::default());
            let x = parse.run(&tensor1(&texts))?;
            for to in ElementType::ALL.iter().copied() {
                let conversion = Conversion::new(from, to, Rules::default());
                let (apart, in_place) = (conversion.run(&x), conversion.run_owned(x.clone()));
                let apart = apart?;
                assert_eq!(apart, in_place?, "{length} of {from} to {to}");
                if [from, to].contains(&ElementType::String) {
                    continue;
                }
                let mut over = Tensor::zero_dt(to.datum_type(), &[length])?;
                over.as_bytes_mut().fill(1);
                conversion.overwrite(x.as_bytes(), over.as_bytes_mut())?;
                assert_eq!(apart, over, "{length} of {from} over {to}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_cast_is_over_as_many_elements_that_are_aligned() -> TractResult<()> {
    let cast = Conversion::new(ElementType::Float, ElementType::Int16, Rules::default());
    let (x, mut y) = (Tensor::zero::<f32>(&[4])?, Tensor::zero::<i16>(&[4])?);
    let (x, y) = (x.as_bytes(), y.as_bytes_mut());
    assert!(cast.overwrite(x, y).is_ok() && cast.overwrite(&x[4..], &mut y[..6]).is_ok());
    assert!(cast.overwrite(&x[4..], y).is_err() && cast.overwrite(x, &mut y[..6]).is_err());
    assert!(cast.overwrite(&x[..14], y).is_err() && cast.overwrite(x, &mut y[..7]).is_err());
    assert!(cast.overwrite(&x[1..13], &mut y[..6]).is_err());
    assert!(cast.overwrite(&x[..12], &mut y[1..7]).is_err());
    let text = Conversion::new(ElementType::Float, ElementType::String, Rules::default());
    assert!(text.overwrite(x, y).is_err());
    Ok(())
}

#[test]
fn an_input_that_somebody_else_holds_is_left_alone() -> TractResult<()> {
    let plan = chain()?;
    let x = numbers(0).into_tvalue();
    let before = x.clone().into_tensor().deep_clone();
    plan.run(tvec!(x.clone()))?;
    assert_eq!(*x, before);
    Ok(())
}
