//! A model's file, read and lowered once: the model, and all that is known of it.

use tract_onnx::prelude::InferenceModel;

use super::model_types::{input_element_types, output_element_types};
use crate::audit::Audit;
use crate::cast::element_type::ElementType;
use crate::error::{Error, Result};
use crate::onnx::quantizers::QuantizerNode;
use crate::passes::casts::node::CastNode;
use crate::passes::diagnostics::Survey;

/// A model that one call has read, lowered and given to tract, with what was found out on the way.
/// The rows of an audit, casts and probes are one list, so their places agree.
///
/// ```
/// use tract_onnx_cast::{ElementType, onnx};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
/// let loaded = onnx().load(path)?;
/// assert_eq!(loaded.casts().count(), 1);
/// assert_eq!(loaded.output_types()?, [ElementType::Float8E4M3FN]);
/// let model = loaded.into_model();
/// # tract_onnx_cast::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Loaded {
    pub(super) model: InferenceModel,
    pub(super) survey: Survey,
}

impl Loaded {
    /// The model, as tract's loader leaves it.
    pub fn model(&self) -> &InferenceModel {
        &self.model
    }

    /// The same, by value.
    pub fn into_model(self) -> InferenceModel {
        self.model
    }

    /// The ONNX element types of the inputs, in their order.
    ///
    /// # Errors
    ///
    /// When an input's type is not known before tract analyses the model.
    pub fn input_types(&self) -> Result<Vec<ElementType>> {
        input_element_types(&self.model)
    }

    /// The ONNX element types of the outputs, in their order.
    ///
    /// # Errors
    ///
    /// When an output's type is not known before tract analyses the model.
    pub fn output_types(&self) -> Result<Vec<ElementType>> {
        output_element_types(&self.model)
    }

    /// Every `Cast` and `CastLike`, those in subgraphs included, in the order of computation.
    pub fn casts(&self) -> impl Iterator<Item = &CastNode> {
        self.survey.casts()
    }

    /// Every `QuantizeLinear` and `DequantizeLinear`, in the order of computation.
    pub fn quantizers(&self) -> &[QuantizerNode] {
        self.survey.quantizers()
    }

    /// What is wrong with declared types, which the loader's options had it overlook.
    pub fn overlooked(&self) -> &[Error] {
        self.survey.overlooked()
    }

    /// What else is known of the model.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// An audit of this model, which counts if the model was loaded [with
    /// probes](crate::CastOnnx::with_probes).
    pub fn audit(&self) -> Audit {
        self.survey.audit()
    }
}
