//! Measures on request, so that another process can take turns with it: for each line `FROM TO ELEMENTS SECONDS` on
//! standard input, a line with the shortest time per element in nanoseconds of a cast through a tract plan.

#![allow(dead_code, reason = "the benches share what they measure")]

mod pairs;

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use pairs::{input, ours};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

fn main() -> TractResult<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let mut ty = || words.next().and_then(ElementType::from_name);
        let (Some(from), Some(to)) = (ty(), ty()) else { continue };
        let elements: usize = words.next().unwrap_or("1").parse()?;
        let seconds: f64 = words.next().unwrap_or("0.1").parse()?;
        println!("{:.5}", shortest(from, to, elements, Duration::from_secs_f64(seconds))?);
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn shortest(
    from: ElementType,
    to: ElementType,
    elements: usize,
    limit: Duration,
) -> TractResult<f64> {
    let (plan, x) = (ours(from, to, elements)?, input(from, elements)?);
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
