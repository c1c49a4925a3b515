//! The audit of one run, from a file.

#![forbid(unsafe_code)]

use std::path::Path;

use tract_onnx::prelude::*;

use super::loader::onnx;
use crate::audit::AuditRow;
use crate::error::{Error, Result};

/// Runs the model of a file on inputs, and says what its casts do, in the order of computation.
///
/// The inputs are carriers of the types that the model takes, in their order; their shapes replace
/// what the model leaves open.
///
/// # Errors
///
/// When tract cannot run the model on them: an [`Error`] that knows the node, where tract tells it.
///
/// ```
/// use tract_onnx::prelude::*;
/// use tract_onnx_cast::audit::audit;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
/// # let shape = tract_onnx_cast::onnx().model_for_path(path)?.input_fact(0)?.shape.as_concrete_finite()?.unwrap();
/// for row in audit(path, [Tensor::zero::<f32>(&shape)?])? {
///     println!("{}: {:?}", row.cast.node, row.stats.outcomes().collect::<Vec<_>>());
/// }
/// # TractResult::Ok(())
/// ```
pub fn audit(
    path: impl AsRef<Path>,
    inputs: impl IntoIterator<Item = Tensor>,
) -> Result<Vec<AuditRow>> {
    let run = || -> TractResult<Vec<AuditRow>> {
        let loaded = onnx().with_probes(true).load(path)?;
        let audit = loaded.audit();
        let mut model = loaded.into_model();
        let inputs: Vec<Tensor> = inputs.into_iter().collect();
        for (place, input) in inputs.iter().enumerate().take(model.inputs.len()) {
            model.set_input_fact(
                place,
                InferenceFact::dt_shape(input.datum_type(), input.shape()),
            )?;
        }
        let mut model = model.into_typed()?;
        audit.watch(&mut model)?;
        let model = model.into_optimized()?.into_runnable()?;
        model.run(inputs.into_iter().map(Tensor::into_tvalue).collect())?;
        Ok(audit.rows())
    };
    run().map_err(Error::of)
}
