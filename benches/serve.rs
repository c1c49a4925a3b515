//! Measures on request, so that another process can take turns with it: for each line on standard
//! input, a line with the shortest time per element in nanoseconds of a run of a tract plan.
//!
//! - `FROM TO ELEMENTS SECONDS`: a cast
//! - `FILE TYPE ELEMENTS SECONDS`: a model of one input, of that type and a shape of so many
//!   elements, loaded by the crate

#![allow(dead_code, reason = "the benches share what they measure")]

mod pairs;

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use pairs::{Plan, input, ours};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

fn main() -> TractResult<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, ty, elements, seconds] = words[..] else { continue };
        let Some(ty) = ElementType::from_name(ty) else { continue };
        let elements: usize = elements.parse()?;
        let (plan, x) = match ElementType::from_name(what) {
            Some(from) => (ours(from, ty, elements)?, input(from, elements)?),
            None => model(Path::new(what), ty, elements)?,
        };
        let limit = Duration::from_secs_f64(seconds.parse()?);
        println!("{:.5}", shortest(&plan, &x, elements, limit)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn model(path: &Path, ty: ElementType, elements: usize) -> TractResult<(Plan, TValue)> {
    let model = tract_onnx_cast::onnx().model_for_path(path)?;
    let shape = model.input_fact(0)?.shape.as_concrete_finite()?.expect("a shape of numbers");
    let x = input(ty, elements)?.into_tensor().into_shape(&shape)?;
    Ok((model.into_optimized()?.into_runnable()?, x.into_tvalue()))
}

fn shortest(plan: &Plan, x: &TValue, elements: usize, limit: Duration) -> TractResult<f64> {
    // Runs that are too short for the clock are measured together.
    let runs = (20_000 / elements).max(1);
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed() < limit {
        let round = Instant::now();
        for _ in 0..runs {
            std::hint::black_box(plan.run(tvec!(x.clone()))?);
        }
        best = best.min(round.elapsed().as_secs_f64() / runs as f64);
    }
    Ok(best * 1e9 / elements as f64)
}
