//! What an operator of ours is made of, in a form that a file can hold.

use tract_onnx::tract_core::internal::*;

use crate::cast::element_type::ElementType;
use crate::ops::host::label::Label;

/// The parameters of an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Names and numbers by their texts: numbers in a file may be of 32 bits.
    pub(crate) texts: Vec<String>,
    /// Sizes, which may have symbols.
    pub(crate) dims: TVec<TDim>,
    /// Axes.
    pub(crate) axes: TVec<usize>,
}

impl Saved {
    pub(crate) fn text(mut self, text: impl Into<String>) -> Saved {
        self.texts.push(text.into());
        self
    }

    pub(crate) fn dims(mut self, dims: &[TDim]) -> Saved {
        self.dims.extend(dims.iter().cloned());
        self
    }

    pub(crate) fn axes(mut self, axes: &[usize]) -> Saved {
        self.axes.extend(axes.iter().copied());
        self
    }

    pub(crate) fn text_at(&self, index: usize) -> TractResult<&str> {
        let text = self.texts.get(index).with_context(|| format!("has no text {index}"))?;
        Ok(text)
    }

    /// The element type whose name is a text.
    pub(crate) fn type_at(&self, index: usize) -> TractResult<ElementType> {
        let name = self.text_at(index)?;
        ElementType::from_name(name).with_context(|| format!("{name:?} is no element type"))
    }
}

/// An operator that can be saved.
pub(crate) trait Save: TypedOp + Sized {
    /// What a file calls it.
    const NAME: &'static str;

    /// What a file calls its outputs.
    const OUTPUTS: &'static [&'static str] = &["output"];

    /// Its parameters.
    fn save(&self) -> Saved;

    /// The operator of these parameters.
    ///
    /// # Errors
    ///
    /// Fails where some are missing, or are not what [`Save::save`] writes.
    fn restore(node: Label, saved: &Saved) -> TractResult<Self>;
}
