//! A tensor between a file or a model and what is said of it.

use tract_onnx::prelude::Tensor;
use tract_onnx_cast::ElementType;

/// An output of a model, or an array of a file, in the carrier of its element type.
#[derive(Clone)]
pub(crate) struct NamedTensor {
    pub(crate) name: String,
    pub(crate) ty: ElementType,
    pub(crate) tensor: Tensor,
}
