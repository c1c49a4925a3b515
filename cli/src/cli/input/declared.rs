//! What a model says about its inputs.

use std::sync::Arc;

use tract_onnx::prelude::{SymbolScope, Tensor};
use tract_onnx::tract_hir::infer::{Factoid, ShapeFactoid};
use tract_onnx_cast::ElementType;

use crate::cli::tensor::NamedTensor;

/// What a model takes.
#[derive(Clone)]
pub(crate) struct Declared {
    /// The inputs, initializers excepted.
    pub(crate) inputs: Vec<Input>,
    /// The symbolic dimensions.
    pub(crate) symbols: SymbolScope,
    /// Those of the file that are numbers, since its weights leave no others.
    pub(crate) of_weights: Vec<(String, usize)>,
}

impl Declared {
    /// The input of that name.
    pub(crate) fn input(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// Tensors for the inputs, in their order, with their names and types.
    pub(crate) fn named(&self, tensors: Vec<Arc<Tensor>>) -> Vec<NamedTensor> {
        let named = |(input, tensor): (&Input, Arc<Tensor>)| NamedTensor {
            name: input.name.clone(),
            ty: input.ty,
            tensor: Arc::unwrap_or_clone(tensor),
        };
        self.inputs.iter().zip(tensors).map(named).collect()
    }
}

/// An input as the model declares it.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) ty: ElementType,
    pub(crate) shape: ShapeFactoid,
}

impl Input {
    /// How many dimensions it has, if that is declared.
    pub(crate) fn rank(&self) -> Option<usize> {
        self.shape.rank().concretize().and_then(|rank| usize::try_from(rank).ok())
    }

    /// The size of an axis, if it is a number.
    pub(crate) fn size(&self, axis: usize) -> Option<usize> {
        let size = self.shape.dims().nth(axis)?.concretize()?;
        usize::try_from(size.as_i64()?).ok()
    }

    /// A note that values of another type were given.
    pub(crate) fn cast_from(&self, held: ElementType) -> String {
        let Input { name, ty, .. } = self;
        format!("input `{name}` is given as {held}, the model takes {ty}: its values are cast")
    }
}
