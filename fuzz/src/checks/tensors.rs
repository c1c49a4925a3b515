//! `TensorProto`: what is read can be written, and what is written is read as the same.

use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::choose;

const MOST_ELEMENTS: usize = 300;

/// Byte 0 tells whether the message that follows stands as it is, or gets data as long as its
/// dimensions ask for.
pub fn read_and_write(mut data: &[u8]) {
    let Some(fits) = choose(&mut data, &[false, true]) else { return };
    let Ok(mut proto) = TensorProto::decode(data) else { return };
    if fits && let Some(raw_data) = fitting(&proto, data) {
        let TensorProto { data_type, dims, .. } = proto;
        proto = TensorProto { data_type, dims, raw_data, ..TensorProto::default() };
    }
    let Ok((ty, tensor)) = tensor_proto::read(&proto, None) else { return };
    let written = tensor_proto::write("x", ty, &tensor).expect("what was read");
    let (again, same) = tensor_proto::read(&written, None).expect("what was written");
    assert_eq!(again, ty);
    assert_eq!(same, tensor);
    assert_eq!(tensor_proto::write("x", ty, &same).expect("what was read"), written);
}

fn fitting(proto: &TensorProto, data: &[u8]) -> Option<Vec<u8>> {
    let ty = ElementType::from_id(proto.data_type).filter(|ty| ty.bits() > 0)?;
    let sizes = proto.dims.iter().map(|dim| usize::try_from(*dim).ok());
    let product = |count: usize, size: Option<usize>| count.checked_mul(size?);
    let elements = sizes.into_iter().try_fold(1, product).filter(|n| *n <= MOST_ELEMENTS)?;
    let bytes = (elements * ty.bits() as usize).div_ceil(8);
    Some(data.iter().copied().cycle().take(bytes).collect())
}
