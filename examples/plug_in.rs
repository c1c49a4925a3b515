//! Adding the plug-in to a pipeline that has an `Onnx` of its own, with operators of its own.
//!
//! ```sh
//! cargo run --example plug_in
//! ```

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;
use tract_onnx_cast::CastOnnx;

fn main() -> TractResult<()> {
    // The pipeline as it was: tract's operators and one more.
    let mut onnx = tract_onnx::onnx();
    onnx.op_register.insert("Celsius", |_, _| Ok((expand(Celsius), vec![])));

    // The plug-in joins; everything else of the `Onnx` stays.
    let onnx = CastOnnx::from(onnx);

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/whole/int64_timestamps/model.onnx");
    let model = onnx.model_for_path(path)?.into_optimized()?;
    println!("{model}");

    let timestamps = tensor1(&[1_700_000_000.5f64]);
    let outputs = model.into_runnable()?.run(tvec!(timestamps.into_tvalue()))?;
    println!("all 64 bits: {outputs:?}");
    Ok(())
}

/// Some operator that this pipeline has and tract does not.
#[derive(Debug, Clone)]
struct Celsius;

impl Expansion for Celsius {
    fn name(&self) -> StaticName {
        "Celsius".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        s.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let rank = model.outlet_fact(inputs[0])?.rank();
        let zero = tensor0(273.15f32).broadcast_into_rank(rank)?;
        let zero = model.add_const(format!("{prefix}.zero"), zero)?;
        model.wire_node(prefix, tract_onnx::tract_hir::ops::math::sub(), &[inputs[0], zero])
    }
}
