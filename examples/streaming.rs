//! A model with casts, a few frames at a time: `tract-pulse` makes it a streaming one, and the
//! casts stream with it.
//!
//! ```sh
//! cargo run --example streaming
//! ```

use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::ToDim;
use tract_onnx_cast::{bf16_slice, onnx};
use tract_pulse::internal::{PulsedModel, PulsedModelExt};

fn main() -> TractResult<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/whole/streaming_filter/model.onnx");
    let model = onnx().model_for_path(path)?.into_typed()?.into_decluttered()?;

    // The dimension that the model calls `time` is what streams, four frames in a pulse.
    let time = model.symbols.sym("time");
    let pulsed = PulsedModel::new(&model, time, &4.to_dim())?.into_typed()?;
    println!("delay: {:?}", pulsed.properties["pulse.delay"]);
    let mut state = pulsed.into_optimized()?.into_runnable()?.spawn()?;

    for pulse in 0..3 {
        let sound: Vec<f16> =
            (0..8).map(|i| f16::from_f32((pulse * 8 + i) as f32 / 16.0)).collect();
        let frames = Tensor::from_shape(&[1, 2, 4], &sound)?;
        let outputs = state.run(tvec!(frames.into_tvalue()))?;
        println!("pulse {pulse}: {:?}", bf16_slice(&outputs[0])?);
    }
    Ok(())
}
