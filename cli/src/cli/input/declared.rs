//! What a model says about its inputs.

use tract_onnx::prelude::SymbolScope;
use tract_onnx::tract_hir::infer::ShapeFactoid;
use tract_onnx_cast::ElementType;

/// What a model takes.
#[derive(Clone)]
pub(crate) struct Declared {
    /// The inputs, initializers excepted.
    pub(crate) inputs: Vec<Input>,
    /// The symbolic dimensions.
    pub(crate) symbols: SymbolScope,
}

/// An input as the model declares it.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) ty: ElementType,
    pub(crate) shape: ShapeFactoid,
}

impl Input {
    /// A note that values of another type were given.
    pub(crate) fn cast_from(&self, held: ElementType) -> String {
        let Input { name, ty, .. } = self;
        format!("input `{name}` is given as {held}, the model takes {ty}: its values are cast")
    }
}
