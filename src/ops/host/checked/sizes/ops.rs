//! The operators that give symbols their values when the model runs.

use tract_onnx::tract_core::internal::*;

use super::names::Names;
use crate::error;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved, save};

/// The identity, behind which symbols stand for the sizes that take too much, or for all that are
/// no symbols. tract gives them their values when it sees the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(super) names: Names,
    pub(super) all: bool,
}

typed_op!(Named, "Named");

impl EvalOp for Named {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Named {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let named = |fact: &&TypedFact| {
            let short =
                |dim: &TDim| if self.all { self.names.name(dim) } else { self.names.short(dim) };
            let shape: ShapeFact = fact.shape.iter().map(short).collect();
            TypedFact { shape, uniform_tdim: None, ..fact.without_value() }
        };
        Ok(inputs.iter().map(named).collect())
    }

    as_op!();
}

save!(Named, "tract_onnx_cast_named", { names, all });

/// The identity, behind which symbols have values: those of what they stand for. Sizes in the input
/// have these in their place.
///
/// Besides it has an output without elements, of these sizes, since tract takes the values of
/// symbols from shapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoundSymbols {
    pub(super) names: Names,
    pub(super) symbols: TVec<Symbol>,
    pub(super) node: Label,
}

impl Op for BoundSymbols {
    fn name(&self) -> StaticName {
        "Bound".into()
    }

    fn required_bound_symbols(&self, _: &[&TypedFact]) -> TVec<Symbol> {
        self.names.made_of(&self.symbols)
    }

    op_as_typed_op!();
}

impl EvalOp for BoundSymbols {
    not_out_of_plan!();

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let values = self.names.evaluate(&self.symbols, context.symbols);
        let mut outputs = tvec!();
        for input in inputs {
            let mut tensor = input.into_tensor();
            if tensor.datum_type().is_tdim() {
                for dim in tensor.try_as_plain_ram_mut()?.as_slice_mut::<TDim>()? {
                    *dim = dim.eval_to_i64(&values)?.to_dim();
                }
            }
            outputs.push(tensor.into_tvalue());
        }
        let size = |symbol: &Symbol| {
            let size = values.get(symbol).and_then(|value| usize::try_from(value).ok());
            size.with_context(|| {
                let node = error::shown(&self.node);
                format!("node `{node}`: the size {symbol} cannot be told, or is negative")
            })
        };
        let sizes = self.symbols.iter().map(size).chain([Ok(0)]);
        let sizes = Tensor::zero::<u8>(&sizes.collect::<TractResult<TVec<usize>>>()?)?;
        outputs.push(sizes.into_tvalue());
        Ok(outputs)
    }
}

impl TypedOp for BoundSymbols {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let given = inputs.iter().map(|fact| fact.without_value());
        let sizes: TVec<TDim> =
            self.symbols.iter().map(Symbol::to_dim).chain([0.to_dim()]).collect();
        Ok(given.chain([u8::fact(sizes)]).collect())
    }

    as_op!();
}

impl Save for BoundSymbols {
    const NAME: &'static str = "tract_onnx_cast_bound";
    const OUTPUTS: &'static [&'static str] = &["output", "sizes"];

    fn save(&self) -> Saved {
        self.names.save(&self.symbols).with(&self.symbols)
    }

    fn restore(node: Label, row: &mut Row) -> TractResult<BoundSymbols> {
        Ok(BoundSymbols { names: row.take()?, symbols: row.take()?, node })
    }
}
