//! The codes of a `GatherBlockQuantized`, two of 4 bits or four of 2 in a byte. Before: UINT8;
//! after: UINT4 or UINT2, and a zero point of 8 or 2 where there was none.

use onnx_cast_graph::{Graph, Node, NodeId, NodeView, ValueId, counted, int};
use tract_onnx::pb::TensorProto;

use super::MICROSOFT;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::refusal;
use crate::passes::context::PassContext;

/// Codes that share a byte.
#[derive(Clone, Copy)]
struct Packing {
    ty: ElementType,
    bits: u8,
}

impl Packing {
    fn of(bits: i64) -> Option<Packing> {
        let (ty, bits) = match bits {
            2 => (ElementType::Uint2, 2),
            4 => (ElementType::Uint4, 4),
            _ => return None,
        };
        Some(Packing { ty, bits })
    }

    fn in_byte(self) -> usize {
        usize::from(8 / self.bits)
    }

    fn zero_point(self) -> u8 {
        1 << (self.bits - 1)
    }

    fn codes(self, byte: u8) -> impl Iterator<Item = u8> {
        (0..8).step_by(self.bits.into()).map(move |from| byte >> from & ((1 << self.bits) - 1))
    }
}

/// Gives codes and zero points the type that they have.
/// Fails when the codes are no constant, or there are not as many as the shapes say.
pub(super) fn unpack(graph: &mut Graph, id: NodeId, context: &PassContext) -> Result<(), Error> {
    let node = graph.node(id).clone();
    let is_packed = |graph: &Graph, value: ValueId| {
        Some(graph.constant(value)?.data_type == ElementType::Uint8 as i32)
    };
    if node.domain != MICROSOFT
        || node.op_type() != "GatherBlockQuantized"
        || node.input(0).and_then(|data| is_packed(graph, data)) != Some(true)
    {
        return Ok(());
    }
    let Some(data) = node.input(0).and_then(|data| graph.constant(data)) else { return Ok(()) };
    let Some(packing) = Packing::of(int(&node, "bits").unwrap_or(4)) else { return Ok(()) };
    let mut codes = (**data).clone();
    widen_last(&node, &mut codes, packing)?;
    let codes = graph.add_constant(node.body(), codes);
    graph.set_input(id, 0, Some(codes));
    let blocks = node.input(2).and_then(|scales| graph.constant(scales));
    let blocks: Vec<i64> = blocks.map(|scales| scales.dims.clone()).ok_or_else(|| {
        let bits = packing.bits;
        refusal(&node, format!("has scales that are no constant, of codes of {bits} bits in bytes"))
    })?;
    let zero_points = match node.input(3) {
        None => vec![packing.zero_point(); count(&node, &blocks)?],
        Some(given) => {
            let given = graph.constant(given).and_then(|given| context.read(given));
            let bytes = given.as_ref().and_then(|(_, bytes)| bytes.try_as_plain_ram().ok());
            let bytes = bytes.as_ref().and_then(|bytes| bytes.as_slice::<u8>().ok());
            let bytes = bytes.ok_or_else(|| refusal(&node, "has zero points that are no bytes"))?;
            rows(&node, bytes, &blocks, packing)?
        }
    };
    let parts = zero_points.chunks(packing.in_byte());
    let byte = |codes: &[u8]| codes.iter().rev().fold(0, |byte, code| byte << packing.bits | code);
    let raw_data = parts.map(byte);
    let zero_points = TensorProto {
        name: "zero_points".into(),
        data_type: packing.ty as i32,
        raw_data: raw_data.collect(),
        dims: blocks,
        ..TensorProto::default()
    };
    let zero_points = graph.add_constant(node.body(), zero_points);
    graph.set_input(id, 3, Some(zero_points));
    Ok(())
}

/// Makes a tensor of bytes one of all codes in them.
fn widen_last(node: &Node, tensor: &mut TensorProto, packing: Packing) -> Result<(), Error> {
    let factor = packing.in_byte() as i64;
    let last = tensor.dims.last_mut().and_then(|last| Some((last.checked_mul(factor)?, last)));
    let (widened, last) = last.ok_or_else(|| refusal(node, "has codes without dimensions"))?;
    *last = widened;
    tensor.data_type = packing.ty as i32;
    if tensor.raw_data.is_empty() && !tensor.int32_data.is_empty() {
        let byte = |code: i32| u8::try_from(code).ok();
        let bytes: Option<Vec<u8>> = tensor.int32_data.drain(..).map(byte).collect();
        tensor.raw_data = bytes.ok_or_else(|| refusal(node, "has codes that are no bytes"))?;
    }
    Ok(())
}

fn count(node: &Node, dims: &[i64]) -> Result<usize, Error> {
    const MOST: usize = 1 << 40;
    let count = dims.iter().try_fold(1usize, |count, dim| {
        count.checked_mul(usize::try_from(*dim).ok()?).filter(|count| *count < MOST)
    });
    count.ok_or_else(|| refusal(node, format!("has scales of the shape {dims:?}")))
}

/// The codes of rows, of which each begins with a byte.
fn rows(node: &Node, bytes: &[u8], dims: &[i64], packing: Packing) -> Result<Vec<u8>, Error> {
    let all = count(node, dims)?;
    let row = dims.last().and_then(|row| usize::try_from(*row).ok()).unwrap_or_default().max(1);
    let packed = row.div_ceil(packing.in_byte());
    if Some(bytes.len()) != (all / row).checked_mul(packed) {
        let problem =
            format!("has {} of zero points for scales of {dims:?}", counted(bytes.len(), "byte"));
        return Err(refusal(node, problem));
    }
    let codes = bytes.chunks(packed).flat_map(|bytes| {
        let codes = bytes.iter().flat_map(|byte| packing.codes(*byte));
        codes.take(row)
    });
    Ok(codes.collect())
}
