//! Every pair of types, quickly: less exact than Criterion, and minutes rather than hours.
//!
//! - `survey bandwidth [ELEMENTS]`: all numeric pairs at each level of this CPU, as a share of the
//!   bandwidth that a memcpy of the same bytes has; a line for each level says how many pairs reach
//!   half of it.
//! - `survey stock [ELEMENTS ...]`: all pairs that tract has too, as plans, in turns: the time of
//!   tract's own cast as a multiple of ours.

#![allow(dead_code, reason = "the benches share what they measure")]

mod pairs;

use std::hint::black_box;
use std::time::{Duration, Instant};

use pairs::{input, ours, stock};
use tract_onnx::prelude::*;
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

fn main() -> TractResult<()> {
    // `cargo bench` adds an argument of its own.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mode = words.next();
    let sizes = words.map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    match mode.as_deref() {
        Some("bandwidth") => bandwidth(sizes.first().copied().unwrap_or(1 << 20)),
        Some("stock") if sizes.is_empty() => against_stock(&[1, 100]),
        Some("stock") => against_stock(&sizes),
        _ => Ok(()),
    }
}

fn pairs_of(is_wanted: impl Fn(ElementType) -> bool) -> Vec<(ElementType, ElementType)> {
    let types: Vec<_> = ElementType::ALL.iter().copied().filter(|ty| is_wanted(*ty)).collect();
    let pairs = types.iter().flat_map(|from| types.iter().map(move |to| (*from, *to)));
    pairs.filter(|(from, to)| from != to).collect()
}

fn bandwidth(elements: usize) -> TractResult<()> {
    let pairs = pairs_of(|ty| ty.family() != Family::Text);
    for level in Level::available() {
        let mut shares = vec![];
        for (from, to) in &pairs {
            let x = input(*from, elements)?;
            let conversion = Conversion::new(*from, *to, Rules::default()).at_level(level);
            let bytes = [from, to].map(|ty| ty.carrier_bytes().unwrap_or(1)).iter().sum::<usize>();
            let (source, mut target) =
                (vec![1u8; elements * bytes / 2], vec![2u8; elements * bytes / 2]);
            let mut runs: [&mut dyn FnMut(); 2] = [
                &mut || drop(black_box(conversion.run(&x).expect("numbers convert"))),
                &mut || black_box(&mut target).copy_from_slice(black_box(&source)),
            ];
            let [ours, memcpy] = in_turns(&mut runs, elements);
            shares.push((memcpy / ours, ours, *from, *to));
        }
        shares.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (share, ours, from, to) in &shares {
            println!("{level:?} {from} → {to}: {ours:.4} ns, {:.0} % of memcpy", share * 100.0);
        }
        let half = shares.iter().filter(|(share, ..)| *share >= 0.5).count();
        let percent = half as f64 / shares.len() as f64 * 100.0;
        println!("{level:?}: {half} of {} pairs, {percent:.1} %, reach half", shares.len());
    }
    Ok(())
}

fn against_stock(sizes: &[usize]) -> TractResult<()> {
    for elements in sizes.iter().copied() {
        let mut ratios = vec![];
        for (from, to) in pairs_of(|ty| !ty.is_exotic()) {
            let x = input(from, elements)?;
            let Some(stock) = stock(from, to, elements) else { continue };
            if stock.run(tvec!(x.clone())).is_err() {
                continue;
            }
            let ours = ours(from, to, elements)?;
            let mut runs: [&mut dyn FnMut(); 2] = [
                &mut || drop(black_box(ours.run(tvec!(x.clone())).expect("numbers convert"))),
                &mut || drop(black_box(stock.run(tvec!(x.clone())))),
            ];
            let [ours, stock] = in_turns(&mut runs, elements);
            ratios.push((stock / ours, ours * elements as f64, from, to));
        }
        ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (ratio, ours, from, to) in &ratios {
            println!("{elements} {from} → {to}: {ours:.0} ns a run, stock takes {ratio:.2} of it");
        }
        let product = ratios.iter().map(|(ratio, ..)| ratio.ln()).sum::<f64>();
        let mean = (product / ratios.len() as f64).exp();
        println!(
            "{elements}: {} pairs, stock takes {mean:.2} of ours on geometric mean",
            ratios.len()
        );
    }
    Ok(())
}

/// The shortest time of each, in nanoseconds per element, all of them in every round.
fn in_turns<const N: usize>(runs: &mut [&mut dyn FnMut(); N], elements: usize) -> [f64; N] {
    // What is too short for the clock is measured many times at once.
    let repeats = (20_000 / elements).clamp(1, 1000);
    let mut shortest = [f64::INFINITY; N];
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        for (run, shortest) in runs.iter_mut().zip(&mut shortest) {
            let round = Instant::now();
            for _ in 0..repeats {
                run();
            }
            let time = round.elapsed().as_secs_f64() / repeats as f64;
            *shortest = shortest.min(time * 1e9 / elements as f64);
        }
    }
    shortest
}
