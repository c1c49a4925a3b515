//! What a model's casts do to the numbers that pass, its `QuantizeLinear` and the roundings of half
//! precision among them.
//!
//! A model that is loaded by [`CastOnnx::with_probes`](crate::CastOnnx::with_probes) has an op
//! behind each of them that sees what went in and what came out, in subgraphs as well. An [`Audit`]
//! has them count:
//!
//! ```
//! use tract_onnx::prelude::*;
//! use tract_onnx_cast::audit::Outcome;
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
//! let loaded = tract_onnx_cast::onnx().with_probes(true).load(path)?;
//! let audit = loaded.audit();
//! let mut model = loaded.into_model().into_typed()?;
//! audit.watch(&mut model)?;
//!
//! # let shape = model.input_fact(0)?.shape.as_concrete().unwrap().to_vec();
//! let input = Tensor::zero::<f32>(&shape)?;
//! model.into_optimized()?.into_runnable()?.run(tvec!(input.into_tvalue()))?;
//! let row = &audit.rows()[0];
//! assert_eq!(row.stats.elements(), row.stats.count(Outcome::Exact));
//! # TractResult::Ok(())
//! ```
//!
//! Results are those of the same model without probes, and a model loaded without them is not
//! slower.
//!
//! - `counts`: outcomes, errors and how they add up
//! - `range`: which values there were
//! - `element`: what became of one element; `text` the same for strings
//! - `measure`: whole tensors; `lanes` the loops that make it fast
//! - `probe`: how values are seen; `watched` what they are seen of; `record` where the counts go;
//!   `pool` who counts

#![forbid(unsafe_code)]

mod counts;
mod element;
mod lanes;
mod measure;
mod pool;
pub(crate) mod probe;
mod range;
mod record;
mod text;
mod watched;

use std::sync::Arc;

use tract_onnx::prelude::*;

use crate::cast::element_type::ElementType;
use crate::error::{Error, Result};
use crate::passes::casts::node::CastNode;
use crate::passes::diagnostics::Survey;

pub use crate::passes::casts::finding::{Finding, FindingKind};
pub use counts::{CastStats, Errors, Outcome};
pub use measure::{measure, range};
pub use range::Range;

pub use crate::cast::reach::{FloatReach, IntegerReach, Reach, holds_every_value};
pub use crate::cast::value::Number;
pub use crate::plug::audited::audit;
pub use crate::tensor::numbers::Numbers;

use record::Records;

/// Counts what the casts of a model do, over as many runs as there are. Clones count together.
#[derive(Debug, Clone)]
pub struct Audit {
    casts: Arc<[CastNode]>,
    records: Arc<Records>,
}

/// One cast, and what it did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AuditRow {
    /// The node.
    pub cast: CastNode,
    /// The source's and the target's type; `None` if the cast never ran and the model does not
    /// tell.
    pub types: Option<(ElementType, ElementType)>,
    /// Whether the input is the same in every run. It is counted once.
    pub is_constant: bool,
    /// How often the cast ran.
    pub runs: u64,
    /// What it did.
    pub stats: CastStats,
}

impl Survey {
    /// An audit of the model, which counts where the model is loaded [with
    /// probes](crate::CastOnnx::with_probes).
    pub fn audit(&self) -> Audit {
        Audit::new(self.rows().to_vec())
    }
}

impl Audit {
    /// An audit of a model with these rows.
    pub(crate) fn new(casts: Vec<CastNode>) -> Audit {
        let records = Arc::new(Records::new(casts.len()));
        Audit { casts: casts.into(), records }
    }

    /// Whether both count together.
    pub(crate) fn is_same(&self, other: &Audit) -> bool {
        Arc::ptr_eq(&self.records, &other.records)
    }

    /// What the rows are about.
    pub(crate) fn casts(&self) -> &[CastNode] {
        &self.casts
    }

    /// Adds what another audit has counted of a cast that is at another place there, in other runs
    /// or in the same one.
    pub(crate) fn take(&self, place: usize, other: &Audit, there: usize, is_same_run: bool) {
        other.records.wait();
        if let Some(counted) = other.records.with(there, |record| record.clone()) {
            self.records.with(place, |record| record.merge(&counted, is_same_run));
        }
    }

    /// Forgets all but what was known when the model was built, and so is not counted when it runs.
    pub(crate) fn begin_anew(&self) {
        self.records.begin_anew();
    }

    /// Has the probes of the model count. Its casts of constants are counted here and now.
    ///
    /// The model is as [`into_typed`](tract_onnx::tract_hir::infer::InferenceModelExt::into_typed)
    /// leaves it: decluttering and optimising come later.
    ///
    /// # Errors
    ///
    /// When the model is not sound.
    pub fn watch(&self, model: &mut TypedModel) -> Result<()> {
        probe::watch(model, &self.records).map_err(Error::of)?;
        self.records.keep();
        Ok(())
    }

    /// Ends a run on one set of inputs. What is the same in every run is not counted again.
    pub fn end_set(&self) {
        self.records.wait();
        for (place, cast) in self.casts.iter().enumerate() {
            self.records
                .with(place, |record| record.is_closed |= cast.is_constant && record.runs > 0);
        }
    }

    /// The casts, in the order of computation, and what they did so far.
    pub fn rows(&self) -> Vec<AuditRow> {
        self.records.wait();
        let row = |(place, cast): (usize, &CastNode)| {
            let record = self.records.with(place, |record| record.clone()).unwrap_or_default();
            AuditRow {
                cast: cast.clone(),
                types: record.types.or(cast.from.zip(cast.to)),
                is_constant: cast.is_constant,
                runs: record.runs,
                stats: record.stats,
            }
        };
        self.casts.iter().enumerate().map(row).collect()
    }
}
