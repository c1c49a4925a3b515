//! An operator around another, in a model that is not typed yet.

use std::fmt;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::ops::host::hook::Wired;

/// What is known of the inputs, the outputs and what else was observed, once an operator's rules
/// have run.
pub(crate) type Inferred =
    TractResult<(TVec<InferenceFact>, TVec<InferenceFact>, TVec<InferenceFact>)>;

/// What is known of these before.
pub(crate) type FactRefs<'a> = TVec<&'a InferenceFact>;

/// Does something else than the operator inside, which does whatever is not said here. The methods
/// are those of tract's traits.
pub(crate) trait Around: fmt::Debug + Clone + Send + Sync + 'static {
    /// The operator inside.
    fn inside(&self) -> &dyn InferenceOp;

    /// The same, whose rules may change it.
    fn inside_mut(&mut self) -> &mut dyn InferenceOp;

    /// Infers facts.
    fn infer_facts(&mut self, inputs: FactRefs, outputs: FactRefs, observed: FactRefs) -> Inferred {
        self.inside_mut().infer_facts(inputs, outputs, observed)
    }

    /// The outputs for inputs that are known while the model is loaded.
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.inside().eval_out_of_plan(inputs)
    }

    /// The outputs, when the model runs before it is typed.
    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.inside().eval(context, inputs)
    }

    /// What is kept from run to run; an operator that keeps something is not folded.
    fn state(&self, context: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        self.inside().state(context)
    }

    /// Puts the operator into a typed model.
    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        self.inside().to_typed(source, node, target, mapping)
    }
}

/// It is around `$inside`.
macro_rules! around {
    ($self:ident, $inside:expr) => {
        fn inside(&$self) -> &dyn InferenceOp {
            &*$inside
        }

        fn inside_mut(&mut $self) -> &mut dyn InferenceOp {
            &mut *$inside
        }
    };
}

pub(crate) use around;

/// What a node's operator is that is [`Around`] another.
#[derive(Debug, Clone)]
pub(crate) struct Wrapped<A>(pub(crate) A);

/// As with tract's own expansions, no two are the same.
impl<A> PartialEq for Wrapped<A> {
    fn eq(&self, _: &Wrapped<A>) -> bool {
        false
    }
}

impl<A> Eq for Wrapped<A> {}

impl<A: Around> Op for Wrapped<A> {
    fn name(&self) -> StaticName {
        self.0.inside().name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.0.inside().info()
    }

    fn validation(&self) -> Validation {
        self.0.inside().validation()
    }

    not_a_typed_op!();
}

impl<A: Around> EvalOp for Wrapped<A> {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.0.eval_out_of_plan(inputs)
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.0.eval(context, inputs)
    }

    fn state(&self, context: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        self.0.state(context)
    }
}

impl<A: Around> InferenceOp for Wrapped<A> {
    fn infer_facts(&mut self, inputs: FactRefs, outputs: FactRefs, observed: FactRefs) -> Inferred {
        self.0.infer_facts(inputs, outputs, observed)
    }

    fn observe_outlets(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Vec<OutletId>> {
        self.0.inside().observe_outlets(model, node)
    }

    fn incorporate(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Option<InferenceModelPatch>> {
        self.0.inside().incorporate(model, node)
    }

    fn nboutputs(&self) -> TractResult<usize> {
        self.0.inside().nboutputs()
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        self.0.to_typed(source, node, target, mapping)
    }

    as_op!();
}
