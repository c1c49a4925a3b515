//! How a typed model is run: optimised if tract can do that, as it stands otherwise.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use tract_onnx::prelude::*;
use tract_onnx::tract_core::optim::Optimizer;
use tract_onnx_cast::untrusted::panic_words;

use crate::cli::message::{one_line, shortened_line};

/// A model that can be run.
pub(crate) struct Plan {
    pub(crate) plan: Arc<TypedRunnableModel>,
    /// Why it is not the optimised one that is run.
    pub(crate) note: Option<String>,
}

type Form = (&'static str, fn(TypedModel) -> TractResult<TypedModel>);

/// What tract can make of a typed model, the fastest first. All of them give the same results.
const FORMS: [Form; 3] =
    [("optimised", optimised), ("decluttered", TypedModel::into_decluttered), ("typed", Ok)];

/// From so many outputs on, as where every value is looked at, operators are only replaced by
/// faster ones. What else tract does to a graph would find little, for outputs stay, and takes a
/// time that grows with the square of their number.
const MANY_OUTPUTS: usize = 1000;
/// The passes that change the graph.
const REWIRING: [&str; 2] = ["PushSplitDown", "declutter"];

fn optimised(mut model: TypedModel) -> TractResult<TypedModel> {
    if model.outputs.len() < MANY_OUTPUTS {
        return model.into_optimized();
    }
    let mut optimizer = Optimizer::codegen();
    optimizer.passes.retain(|pass| !REWIRING.contains(&&*format!("{pass:?}")));
    model.optimize_with_session(&mut optimizer.session())?;
    Ok(model)
}

/// Makes the first plan that tract does not fail at, of models that `model` makes. A plan takes its
/// model, of which no other copy is kept: one would hold each weight beside its packed form.
/// Fails as for the optimised model, when there is none.
///
/// # Panics
///
/// Likewise.
pub(crate) fn plan(mut model: impl FnMut() -> TractResult<TypedModel>) -> TractResult<Plan> {
    let mut first: Option<Failure> = None;
    for (form, make) in FORMS {
        let model = model()?;
        let attempt = || make(model)?.into_runnable();
        let failure = match panic::catch_unwind(AssertUnwindSafe(attempt)) {
            Ok(Ok(plan)) => return Ok(Plan { plan, note: first.map(|first| first.note(form)) }),
            Ok(Err(error)) => Failure::Error(error),
            Err(panic) => Failure::Panic(panic),
        };
        first = first.or(Some(failure));
    }
    match first {
        Some(Failure::Panic(panic)) => panic::resume_unwind(panic),
        Some(Failure::Error(error)) => Err(error),
        None => anyhow::bail!("there is no form to run"),
    }
}

/// How tract failed.
enum Failure {
    Error(anyhow::Error),
    Panic(Box<dyn Any + Send>),
}

impl Failure {
    fn note(self, form: &str) -> String {
        let reason = match &self {
            Failure::Error(error) => shortened_line(&one_line(error)),
            Failure::Panic(panic) => shortened_line(panic_words(&**panic).unwrap_or("a panic")),
        };
        format!("tract cannot optimise this model, it was run {form}: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use tract_onnx::tract_core::internal::*;

    use super::plan;

    /// An identity that tract cannot take through a stage of its optimiser.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Stubborn {
        fails_at: &'static str,
    }

    impl Op for Stubborn {
        fn name(&self) -> StaticName {
            "Stubborn".into()
        }

        op_as_typed_op!();
    }

    impl EvalOp for Stubborn {
        op_out_of_plan!();

        fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
            Ok(inputs)
        }
    }

    impl TypedOp for Stubborn {
        fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
            Ok(inputs.iter().map(|fact| fact.without_value()).collect())
        }

        fn declutter(&self, _: &TypedModel, _: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
            assert!(self.fails_at != "panic", "declutter gave up");
            ensure!(self.fails_at != "declutter", "declutter gave up");
            Ok(None)
        }

        fn codegen(&self, _: &TypedModel, _: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
            ensure!(self.fails_at != "codegen", "codegen gave up");
            Ok(None)
        }

        as_op!();
    }

    #[test]
    fn a_model_is_run_in_the_first_form_that_tract_manages() -> TractResult<()> {
        for (fails_at, form) in [
            ("nowhere", None),
            ("codegen", Some("run decluttered")),
            ("declutter", Some("run typed")),
            ("panic", Some("run typed")),
        ] {
            let mut model = TypedModel::default();
            let source = model.add_source("x", f32::fact([2]))?;
            let wire = model.wire_node("y", Stubborn { fails_at }, &[source])?;
            model.select_output_outlets(&wire)?;
            let mut models = 0;
            let made = plan(|| {
                models += 1;
                Ok(model.clone())
            })?;
            // One is there at a time, and no other where the first becomes a plan.
            let tried = match form {
                None => 1,
                Some("run decluttered") => 2,
                Some(_) => 3,
            };
            assert_eq!(models, tried, "{fails_at}");
            let outputs = made.plan.run(tvec!(tensor1(&[1f32, 2.0]).into_tvalue()))?;
            assert_eq!(outputs[0].as_bytes(), tensor1(&[1f32, 2.0]).as_bytes());
            match (form, &made.note) {
                (None, None) => {}
                (Some(form), Some(note)) => {
                    assert!(note.contains(form) && note.contains("gave up"), "{note}");
                }
                (_, note) => panic!("{fails_at}: {note:?}"),
            }
        }
        Ok(())
    }
}
