//! Large casts on the threads of tract's executor: the same bits with any number of them, and the
//! same error.

use crate::common::elements::{SplitMix64, tensor_of_codes};
use tract_linalg::multithread::{Executor, multithread_tract_scope};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

/// Enough to be divided, and not a multiple of anything.
const LARGE: usize = (1 << 18) + 77;

fn random(ty: ElementType) -> Tensor {
    let mut random = SplitMix64(ty as u64);
    if ty.family() == Family::Text {
        let texts: Vec<String> = (0..LARGE).map(|_| (random.next() % 2).to_string()).collect();
        return tensor1(&texts);
    }
    let mask = if ty == ElementType::Bool { 1 } else { ty.code_mask() };
    tensor_of_codes(ty, &(0..LARGE).map(|_| random.next() & mask).collect::<Vec<_>>())
}

fn with_threads<R>(threads: usize, act: impl FnOnce() -> R) -> R {
    multithread_tract_scope(Executor::multithread(threads), act)
}

/// Types of every width and way of conversion.
const TYPES: [ElementType; 12] = [
    ElementType::Float,
    ElementType::Double,
    ElementType::Float16,
    ElementType::BFloat16,
    ElementType::Float8E4M3FN,
    ElementType::Float8E8M0,
    ElementType::Int4,
    ElementType::Uint8,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::Bool,
    ElementType::String,
];

#[test]
fn any_number_of_threads_gives_the_same_bits() -> TractResult<()> {
    for from in TYPES {
        let x = random(from);
        for to in TYPES {
            let conversion = Conversion::new(from, to, Rules::default());
            let alone = conversion.run(&x)?;
            for threads in [1, 2, 3] {
                let (divided, in_place) = with_threads(threads, || {
                    (conversion.run(&x), conversion.run_owned(x.deep_clone()))
                });
                let about = format!("{from} to {to}, {threads} threads");
                assert!(same_bits(&divided?, &alone)?, "{about}");
                assert!(same_bits(&in_place?, &alone)?, "{about}, in place");
            }
        }
    }
    Ok(())
}

/// Tensors of floats are not equal to themselves if they hold a NaN.
fn same_bits(one: &Tensor, other: &Tensor) -> TractResult<bool> {
    if one.datum_type() == DatumType::String {
        return Ok(one == other);
    }
    Ok(one.datum_type() == other.datum_type() && one.as_bytes() == other.as_bytes())
}

#[test]
fn the_first_unreadable_string_is_named_with_any_number_of_threads() -> TractResult<()> {
    let mut x = random(ElementType::String);
    for (index, text) in [(LARGE - 1, "late"), (200_001, "early"), (200_077, "soon after")] {
        x.try_as_plain_ram_mut()?.as_slice_mut::<String>()?[index] = text.into();
    }
    for to in [ElementType::Float, ElementType::Float8E5M2] {
        let conversion = Conversion::new(ElementType::String, to, Rules::default());
        for threads in [1, 2, 3] {
            let error = with_threads(threads, || conversion.run(&x)).expect_err("no numbers");
            let message = format!("{error:#}");
            assert!(message.contains("200001") && message.contains("early"), "{message}");
        }
    }
    Ok(())
}
