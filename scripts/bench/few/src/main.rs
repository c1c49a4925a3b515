//! Casts of 2 to 256 elements by NumKong, `half` and `float8`, and by our kernels: nanoseconds for
//! a call, the shortest of several rounds, in turns. What they make of NaN and of numbers out of
//! range differs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use cast_alone::run::{Level, Run};
use float8::{F8E4M3, F8E5M2};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use numkong::{CastDtype, cast};

const SIZES: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];
const MOST: usize = 256;

/// A call that casts so many elements.
type Call = Box<dyn FnMut(usize)>;

fn ours(from: &'static str, to: &'static str) -> Call {
    let mut runs = SIZES.map(|count| (count, Run::of(from, to, count).expect("types")));
    let level = Level::best();
    Box::new(move |count| {
        let (_, run) = runs.iter_mut().find(|(size, _)| *size == count).expect("a size");
        black_box(run).run(level);
    })
}

fn numkong<S: CastDtype + Copy + 'static, D: CastDtype + Copy + 'static>(one: S, zero: D) -> Call {
    let (source, mut target) = (vec![one; MOST], vec![zero; MOST]);
    Box::new(move |count| {
        cast(black_box(&source[..count]), black_box(&mut target[..count])).expect("as many");
    })
}

fn crates<S: Copy + 'static, D: Copy + 'static>(one: S, zero: D, cast: fn(&[S], &mut [D])) -> Call {
    let (source, mut target) = (vec![one; MOST], vec![zero; MOST]);
    Box::new(move |count| cast(black_box(&source[..count]), black_box(&mut target[..count])))
}

fn each<S: Copy, D>(source: &[S], target: &mut [D], cast: impl Fn(S) -> D) {
    for (place, element) in target.iter_mut().zip(source) {
        *place = cast(*element);
    }
}

fn main() {
    type Half = numkong::f16;
    type Brain = numkong::bf16;
    let (half, brain) = (Half::from_f32(1.5), Brain::from_f32(1.5));
    let (e4m3, e5m2) = (numkong::e4m3::from_f32(1.5), numkong::e5m2::from_f32(1.5));
    let pairs: Vec<(&str, &str, Call, Option<Call>)> = vec![
        (
            "FLOAT",
            "FLOAT16",
            numkong(1.5f32, half),
            Some(crates(1.5f32, f16::ONE, |s, d| d.convert_from_f32_slice(s))),
        ),
        (
            "FLOAT16",
            "FLOAT",
            numkong(half, 0f32),
            Some(crates(f16::ONE, 0f32, |s, d| s.convert_to_f32_slice(d))),
        ),
        (
            "FLOAT",
            "BFLOAT16",
            numkong(1.5f32, brain),
            Some(crates(1.5f32, bf16::ONE, |s, d| d.convert_from_f32_slice(s))),
        ),
        (
            "BFLOAT16",
            "FLOAT",
            numkong(brain, 0f32),
            Some(crates(bf16::ONE, 0f32, |s, d| s.convert_to_f32_slice(d))),
        ),
        (
            "FLOAT",
            "FLOAT8E4M3FN",
            numkong(1.5f32, e4m3),
            Some(crates(1.5f32, F8E4M3::ONE, |s, d| each(s, d, F8E4M3::from_f32))),
        ),
        (
            "FLOAT8E4M3FN",
            "FLOAT",
            numkong(e4m3, 0f32),
            Some(crates(F8E4M3::ONE, 0f32, |s, d| each(s, d, |x| x.to_f32()))),
        ),
        (
            "FLOAT",
            "FLOAT8E5M2",
            numkong(1.5f32, e5m2),
            Some(crates(1.5f32, F8E5M2::ONE, |s, d| each(s, d, F8E5M2::from_f32))),
        ),
        (
            "FLOAT8E5M2",
            "FLOAT",
            numkong(e5m2, 0f32),
            Some(crates(F8E5M2::ONE, 0f32, |s, d| each(s, d, |x| x.to_f32()))),
        ),
        ("FLOAT", "INT8", numkong(1.5f32, 0i8), None),
        ("UINT8", "FLOAT", numkong(1u8, 0f32), None),
        ("FLOAT", "INT32", numkong(1.5f32, 0i32), None),
        ("INT64", "FLOAT", numkong(1i64, 0f32), None),
        ("DOUBLE", "FLOAT", numkong(1.5f64, 0f32), None),
    ];
    println!("| pair | {} |", SIZES.map(|size| size.to_string()).join(" | "));
    println!("|---|{}", "---|".repeat(SIZES.len()));
    for (from, to, theirs, other) in pairs {
        let mut calls = vec![ours(from, to), theirs];
        calls.extend(other);
        let cells = SIZES.map(|size| {
            let times = in_turns(&mut calls, size).into_iter().map(|time| format!("{time:.1}"));
            times.collect::<Vec<_>>().join(", ")
        });
        println!("| {from} → {to} | {} |", cells.join(" | "));
    }
}

/// The shortest time of a call of each, in nanoseconds, all of them in every round.
fn in_turns(calls: &mut [Call], count: usize) -> Vec<f64> {
    const REPEATS: u32 = 2000;
    let mut shortest = vec![f64::INFINITY; calls.len()];
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(40) {
        for (call, shortest) in calls.iter_mut().zip(&mut shortest) {
            let round = Instant::now();
            for _ in 0..REPEATS {
                call(count);
            }
            *shortest = shortest.min(round.elapsed().as_secs_f64() * 1e9 / f64::from(REPEATS));
        }
    }
    shortest
}
