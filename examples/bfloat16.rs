//! BFLOAT16 in and out: numbers of the `half` crate, in a model that delays a sequence of them.
//!
//! ```sh
//! cargo run --example bfloat16
//! ```

use half::bf16;
use tract_onnx::prelude::*;
use tract_onnx_cast::{
    Conversion, ElementType, Rules, bf16_slice, bf16_tensor, input_element_types, onnx,
    output_element_types,
};

fn main() -> TractResult<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/whole/scan_bfloat16_delay/model.onnx");
    let model = onnx().model_for_path(path)?.into_optimized()?;
    let (inputs, outputs) = (input_element_types(&model)?, output_element_types(&model)?);
    println!("from {inputs:?} to {outputs:?}");

    // tract has no BFLOAT16: a tensor of it holds the bit patterns, and these two read and write
    // them as numbers.
    let shape = [5, 4];
    let numbers: Vec<bf16> = (0..20).map(|i| bf16::from_f32(i as f32 / 4.0)).collect();
    let input = bf16_tensor(&shape, &numbers)?;
    let outputs_values = model.into_runnable()?.run(tvec!(input.into_tvalue()))?;
    for (ty, value) in outputs.iter().zip(&outputs_values) {
        match ty {
            ElementType::BFloat16 => println!("{ty} {:?}", &bf16_slice(value)?[..4]),
            _ => println!("{ty} {value:?}"),
        }
    }

    // Without a model: any tensor, any pair of types.
    let round = Conversion::new(ElementType::Double, ElementType::BFloat16, Rules::default());
    let pi = round.run(&tensor1(&[std::f64::consts::PI]))?;
    println!("pi is {}", bf16_slice(&pi)?[0]);
    Ok(())
}
