//! Initializers that differ in signs of zeros alone, of which tract makes one (tract-hir,
//! `infer/model.rs`, `add_const`). Before: two initializers; after: the second is the value of a
//! `Constant`, which tract leaves alone until the model is typed, when `ops::host::checked::signs`
//! looks after it.

use std::collections::HashMap;

use half::f16;
use onnx_cast_graph::{BodyId, Graph, Made, NewNode, Place, value_attribute};
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::TractResult;

use crate::cast::element_type::ElementType;
use crate::passes::context::PassOptions;
use crate::tensor::proto;

/// Of more elements, nobody has constants that are alike in all but signs of zeros.
const MOST: i64 = 1 << 12;

/// Has such initializers of a body be made by nodes, but the first of each.
pub(super) fn keep_apart(
    graph: &mut Graph,
    body: BodyId,
    options: &PassOptions,
) -> TractResult<()> {
    let mut firsts: HashMap<(i32, Vec<i64>, Vec<u8>), Vec<u8>> = HashMap::new();
    for value in graph.body(body).constants().to_vec() {
        let Some(held) = graph.constant(value).filter(|tensor| is_small(tensor)) else { continue };
        let (_, tensor) = proto::read_with(held, options.folder, options.resolver)?;
        let bits = tensor.try_as_plain_ram()?.as_bytes().to_vec();
        let alike = (held.data_type, held.dims.clone(), without_signs(held.data_type, &bits));
        let is_other = *firsts.entry(alike).or_insert_with(|| bits.clone()) != bits;
        if is_other && let Some(held) = graph.take_constant(value) {
            let outputs = vec![Made::Value(value)];
            let node = NewNode { outputs, ..NewNode::of("Constant", &[], "") };
            let node = node.with(vec![value_attribute((*held).clone())]);
            graph.add(Place::First(body), node);
        }
    }
    Ok(())
}

fn is_small(tensor: &TensorProto) -> bool {
    let floats = [ElementType::Float, ElementType::Float16, ElementType::Double];
    let count = tensor.dims.iter().try_fold(1i64, |all, size| all.checked_mul(*size));
    floats.iter().any(|ty| *ty as i32 == tensor.data_type)
        && count.is_some_and(|count| (1..=MOST).contains(&count))
}

/// The bits of floats, of which no zero has a sign.
fn without_signs(data_type: i32, bits: &[u8]) -> Vec<u8> {
    let zero: &[u8] = match data_type {
        id if id == ElementType::Double as i32 => &(-0f64).to_ne_bytes(),
        id if id == ElementType::Float as i32 => &(-0f32).to_ne_bytes(),
        _ => &f16::NEG_ZERO.to_ne_bytes(),
    };
    let one = |element: &[u8]| if element == zero { vec![0; zero.len()] } else { element.to_vec() };
    bits.chunks(zero.len()).flat_map(one).collect()
}
