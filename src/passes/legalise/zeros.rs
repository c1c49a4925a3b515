//! Initializers that differ in signs of zeros alone, of which tract makes one (tract-hir, `infer/model.rs`, `add_const`). Before:
//! two initializers; after: the second is the value of a `Constant`, which tract leaves alone until the model is typed, when
//! `ops::host::checked::signs` looks after it.

use std::collections::BTreeMap;

use onnx_cast_graph::{BodyId, Graph, Made, NewNode, Place, ValueId};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, TensorProto};
use tract_onnx::prelude::{Tensor, TractResult};

use crate::cast::element_type::ElementType;
use crate::passes::context::Options;
use crate::tensor::proto;

/// Of more elements, nobody has constants that are alike in all but signs of zeros.
const MOST: i64 = 1 << 12;

/// Has such initializers of a body be made by nodes, but the first of each.
pub(super) fn keep_apart(graph: &mut Graph, body: BodyId, options: &Options) -> TractResult<()> {
    let mut alike: BTreeMap<(i32, Vec<i64>), Vec<ValueId>> = BTreeMap::new();
    for value in graph.body(body).constants() {
        let Some(tensor) = graph.constant(*value).filter(|tensor| is_small(tensor)) else {
            continue;
        };
        alike.entry((tensor.data_type, tensor.dims.clone())).or_default().push(*value);
    }
    for values in alike.into_values().filter(|values| values.len() > 1) {
        let mut known: Vec<Tensor> = vec![];
        for value in values {
            let Some(held) = graph.constant(value) else { continue };
            let (_, tensor) = proto::read_with(held, options.folder, options.resolver)?;
            let is_other = known.iter().any(|known| *known == tensor && !has_bits(known, &tensor));
            known.push(tensor);
            if is_other && let Some(held) = graph.take_constant(value) {
                let attribute = AttributeProto {
                    name: "value".into(),
                    r#type: AttributeType::Tensor as i32,
                    t: Some((*held).clone()),
                    ..AttributeProto::default()
                };
                let outputs = vec![Made::Value(value)];
                let node = NewNode { outputs, ..NewNode::of("Constant", &[], "") };
                graph.add(Place::First(body), node.with(vec![attribute]));
            }
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

/// Whether two tensors of one type and shape have the same bits.
fn has_bits(a: &Tensor, b: &Tensor) -> bool {
    let bytes = |tensor: &Tensor| tensor.try_as_plain_ram().map(|plain| plain.as_bytes().to_vec());
    matches!((bytes(a), bytes(b)), (Ok(a), Ok(b)) if a == b)
}
