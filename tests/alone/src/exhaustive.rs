//! Every FLOAT to every type of at most 16 bits, at every level of this CPU, against the
//! definition.
//!
//! Without `EXHAUSTIVE`, which is a number of threads, it is one block of them in many: all take
//! ten minutes of one core.

use std::env;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;
use crate::cast::scalar::{convert, write_carrier};
use crate::numbers::{numeric, rules_for};

/// FLOATs that are converted by one call. They fill no vector to its end, so that there are tails
/// as well.
const BLOCK: usize = (1 << 12) + 13;
const BLOCKS: u64 = (1u64 << 32).div_ceil(BLOCK as u64);
/// Without `EXHAUSTIVE`, one block in so many.
const SAMPLED: u64 = 16_411;

/// One type, with attributes, that FLOATs are converted to.
struct Target {
    to: ElementType,
    rules: Rules,
    kernel: Arc<dyn Kernel>,
}

impl Target {
    fn all() -> Vec<Target> {
        let narrow = numeric().filter(|to| to.bits() <= 16);
        let targets = narrow.flat_map(|to| {
            let select = move |rules| select(ElementType::Float, to, rules);
            rules_for(to).into_iter().map(move |rules| Target { to, rules, kernel: select(rules) })
        });
        targets.collect()
    }

    /// Converts a block at every level, and returns how many elements of the kernels' were compared
    /// with the definition's.
    fn check(&self, floats: &[f32]) -> usize {
        let Target { to, rules, kernel } = self;
        // Aligned as the widest of the targets.
        let (mut wanted, mut got) = ([0u16; BLOCK], [0u16; BLOCK]);
        let width = to.carrier_bytes().expect("a number");
        let wanted = &mut bytemuck::cast_slice_mut(&mut wanted)[..floats.len() * width];
        let got = &mut bytemuck::cast_slice_mut(&mut got)[..floats.len() * width];
        define(floats, *to, *rules, wanted);
        let levels = Level::available();
        for level in &levels {
            got.fill(0xA5);
            kernel.overwrite(*level, bytemuck::cast_slice(floats), got);
            if got != wanted {
                let pairs = got.chunks(width).zip(wanted.chunks(width));
                let wrong = pairs.zip(floats).find(|((got, wanted), _)| got != wanted);
                let ((got, wanted), float) = wrong.expect("a difference");
                let bits = float.to_bits();
                panic!("FLOAT {bits:x} to {to}, {rules:?}, {level:?}: {got:x?}, not {wanted:x?}");
            }
        }
        levels.len() * floats.len()
    }
}

/// What the definition makes of FLOATs: compiled once for each type, which takes a quarter of the
/// time.
fn define(floats: &[f32], to: ElementType, rules: Rules, places: &mut [u8]) {
    macro_rules! of_types {
        ($($ty:ident: $width:literal,)*) => {
            match to {
                $(ElementType::$ty => {
                    for (float, place) in floats.iter().zip(places.chunks_exact_mut($width)) {
                        let code = u64::from(float.to_bits());
                        let code = convert(ElementType::Float, ElementType::$ty, rules, code);
                        write_carrier(ElementType::$ty, code.expect("numbers"), place);
                    }
                })*
                _ => unreachable!("{to} is of more than 16 bits"),
            }
        };
    }
    of_types!(
        Bool: 1, Uint8: 1, Int8: 1, Uint16: 2, Int16: 2, Float16: 2, BFloat16: 2,
        Float8E4M3FN: 1, Float8E4M3FNUZ: 1, Float8E5M2: 1, Float8E5M2FNUZ: 1, Float8E8M0: 1,
        Float6E2M3: 1, Float6E3M2: 1, Float4E2M1: 1, Uint4: 1, Int4: 1, Uint2: 1, Int2: 1,
    );
}

#[test]
fn every_float_is_converted_as_defined() {
    let threads = env::var("EXHAUSTIVE").ok();
    let threads: Option<usize> = threads.map(|count| count.parse().expect("a number of threads"));
    let targets = Target::all();
    let (next, compared) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let step = if threads.is_some() { 1 } else { SAMPLED };
        loop {
            let block = next.fetch_add(step, Ordering::Relaxed);
            if block >= BLOCKS {
                break;
            }
            let first = block * BLOCK as u64;
            let codes = first..(first + BLOCK as u64).min(1 << 32);
            let floats: Vec<f32> = codes.map(|code| f32::from_bits(code as u32)).collect();
            let count: usize = targets.iter().map(|target| target.check(&floats)).sum();
            compared.fetch_add(count as u64, Ordering::Relaxed);
            if threads.is_some() && block % (BLOCKS / 100) == 0 {
                eprintln!("{} %", block / (BLOCKS / 100));
            }
        }
    };
    match threads {
        None => work(),
        Some(threads) => thread::scope(|scope| {
            let all: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            all.into_iter().for_each(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }),
    }
    let (compared, levels) = (compared.into_inner(), Level::available());
    println!("{compared} elements of {} conversions compared, at {levels:?}", targets.len());
    if threads.is_some() {
        assert_eq!(compared, (targets.len() * levels.len()) as u64 * (1 << 32));
    }
}
