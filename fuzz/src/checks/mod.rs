//! What must hold for any bytes. The fuzz targets call these, and so does the test that replays the
//! corpus.

#![forbid(unsafe_code)]

pub mod kernels;
pub mod models;
pub mod plans;
pub mod quantizers;
pub mod tensors;
pub mod text;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;

use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family};

/// Panics where something does not hold.
type Check = fn(&[u8]);

/// The checks by their targets' names.
pub const CHECKS: [(&str, Check); 7] = [
    ("casts", models::casts),
    ("load", models::load),
    ("run", plans::run),
    ("tensor", tensors::read_and_write),
    ("kernels", kernels::agree),
    ("text", text::agrees),
    ("quantizers", quantizers::agree),
];

/// The types of numbers.
fn numbers() -> Vec<ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text).collect()
}

/// An element's code in its carrier's bytes.
fn code(ty: ElementType, carrier: &[u8]) -> u64 {
    little(carrier) & ty.code_mask()
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte))
}

/// The bytes of a code in its type's carrier, signed ones extended; the rest of them is for wider
/// carriers.
fn carrier(ty: ElementType, code: u64) -> [u8; 8] {
    let unused = 64 - ty.bits();
    let extended = match ty.family() {
        Family::Signed => ((code << unused) as i64 >> unused) as u64,
        _ => code,
    };
    extended.to_le_bytes()
}

/// Any bits as a code of the type.
fn valid(ty: ElementType, bits: u64) -> u64 {
    if ty == ElementType::Bool { bits & 1 } else { bits & ty.code_mask() }
}

/// A tensor of codes.
fn tensor(ty: ElementType, codes: &[u64], shape: &[usize]) -> Tensor {
    let mut tensor = Tensor::zero_dt(ty.datum_type(), shape).expect("a small tensor");
    let width = ty.carrier_bytes().expect("a number");
    for (place, code) in tensor.as_bytes_mut().chunks_mut(width).zip(codes) {
        place.copy_from_slice(&carrier(ty, *code)[..width]);
    }
    tensor
}

/// What is made of a key, made once: there are millions of inputs.
struct Made<K, V>(RefCell<HashMap<K, V>>);

/// So much is kept.
const MADE: usize = 20_000;

impl<K: Eq + Hash, V: Clone> Made<K, V> {
    fn new() -> Made<K, V> {
        Made(RefCell::default())
    }

    fn of(&self, key: K, make: impl FnOnce() -> V) -> V {
        let mut made = self.0.borrow_mut();
        if made.len() >= MADE {
            made.clear();
        }
        made.entry(key).or_insert_with(make).clone()
    }
}

/// The first byte chooses among these.
fn choose<T: Copy>(bytes: &mut &[u8], from: &[T]) -> Option<T> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    from.get(*first as usize % from.len()).copied()
}
