//! The kernels alone, without tract:
//!
//! - `kernels time ELEMENTS [LEVEL]`: every pair at each level of this CPU, or at one (0 is the
//!   baseline): nanoseconds per element, and the share of the bandwidth that a memcpy of the same
//!   bytes has; a line for each level says how many reach half of it.
//! - `kernels serve LEVEL`: for each line `FROM TO ELEMENTS SECONDS` on standard input, a line with
//!   the shortest time; this is what `scripts/bench/bench_peers.py` asks.
//! - `kernels run FROM TO ELEMENTS TIMES`: one pair at the highest level, for what counts
//!   instructions.

use std::env;
use std::hint::black_box;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::{Duration, Instant};

use cast_alone::run::{Level, Run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["time", elements] => time(elements.parse()?, &Level::available()),
        ["time", elements, level] => {
            let level: usize = level.parse()?;
            time(elements.parse()?, Level::available().get(level..=level).unwrap_or_default());
        }
        ["serve", level] => {
            serve(*Level::available().get(level.parse::<usize>()?).ok_or("no such level")?)?;
        }
        ["run", from, to, elements, times] => {
            let mut run = Run::of(from, to, elements.parse()?).ok_or("no such types")?;
            for _ in 0..times.parse()? {
                black_box(&mut run).run(Level::best());
            }
        }
        _ => {
            return Err(
                "kernels time ELEMENTS [LEVEL] | serve LEVEL | run FROM TO ELEMENTS TIMES".into()
            );
        }
    }
    Ok(())
}

fn serve(level: Level) -> Result<(), Box<dyn std::error::Error>> {
    for line in stdin().lock().lines() {
        let line = line?;
        let [from, to, elements, seconds] = line.split(' ').collect::<Vec<_>>()[..] else {
            continue;
        };
        let (elements, limit) = (elements.parse()?, Duration::from_secs_f64(seconds.parse()?));
        let time = Run::of(from, to, elements).map(|mut run| {
            let [time] = in_turns(&mut [&mut || black_box(&mut run).run(level)], elements, limit);
            time
        });
        println!("{:.5}", time.unwrap_or(f64::INFINITY));
        stdout().flush()?;
    }
    Ok(())
}

fn time(elements: usize, levels: &[Level]) {
    for level in levels {
        let mut shares = vec![];
        for (from, to) in Run::pairs() {
            let Some(mut run) = Run::of(&from, &to, elements) else { continue };
            let half = run.bytes() / 2;
            let (source, mut target) = (vec![1u8; half], vec![2u8; half]);
            let [ours, memcpy] = in_turns(
                &mut [&mut || black_box(&mut run).run(*level), &mut || {
                    black_box(&mut target).copy_from_slice(black_box(&source));
                }],
                elements,
                Duration::from_millis(30),
            );
            shares.push((memcpy / ours, ours, from, to));
        }
        shares.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (share, ours, from, to) in &shares {
            println!("{level:?} {from} → {to}: {ours:.4} ns, {:.0} % of memcpy", share * 100.0);
        }
        let half = shares.iter().filter(|(share, ..)| *share >= 0.5).count();
        println!("{level:?}: {half} of {} pairs reach half", shares.len());
    }
}

/// The shortest time of each, in nanoseconds per element, in turns.
fn in_turns<const N: usize>(
    runs: &mut [&mut dyn FnMut(); N],
    elements: usize,
    limit: Duration,
) -> [f64; N] {
    // What is too short for the clock is measured many times at once.
    let repeats = (20_000 / elements).clamp(1, 1000);
    let mut shortest = [f64::INFINITY; N];
    let start = Instant::now();
    while start.elapsed() < limit {
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
