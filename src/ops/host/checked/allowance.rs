//! How much tract may make of constants while it loads a model.
//!
//! tract computes what depends on constants alone: when facts are inferred, when a node is wired
//! into a typed model, and when that is decluttered; and it looks at the size of a result once it
//! has it (`tract-hir/src/infer/ops.rs`, `tract-core/src/optim/prop_const.rs`). So all that a model
//! makes of constants is counted here in bytes before it is made, where tract's rules have just
//! told its shape, whatever operator it is and wherever the shape comes from. All nodes of a model
//! share one [`Allowance`].

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::optim::CONST_FOLD_MEM_BUDGET;
use tract_onnx::tract_hir::internal::*;

use super::sizes::names::Names;
use super::work::STEPS_PER_BYTE;
use crate::error::Error;
use crate::onnx::limits::{Limits, within};

/// What the nodes of a model may make together.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// In bytes.
    limit: u64,
    /// The bytes that a node may make of inputs besides, where numbers alone tell how much it
    /// makes.
    given: u64,
    /// How many dimensions a tensor may have.
    pub(super) rank: u64,
    /// The bytes that were made so far.
    made: AtomicU64,
    /// The steps that computing took so far.
    spent: AtomicU64,
    /// The symbols that stand for sizes.
    names: Names,
}

thread_local! {
    /// That of the model whose nodes this thread is building.
    static CURRENT: RefCell<Option<Arc<Allowance>>> = const { RefCell::new(None) };
}

impl Allowance {
    /// That of a model of these limits, whose inputs have so many bytes, as far as they declare it.
    pub(crate) fn new(limits: &Limits, given: u64) -> Allowance {
        /// What is computed of an input may be several times as large.
        const TIMES: u64 = 16;
        Allowance {
            limit: limits.made_bytes,
            given: given.saturating_mul(TIMES),
            rank: limits.rank,
            made: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            names: Names::default(),
        }
    }

    /// Builds nodes by `build`, all of which share the allowance.
    pub(crate) fn share<T>(self, build: impl FnOnce() -> T) -> T {
        struct Restored(Option<Arc<Allowance>>);
        impl Drop for Restored {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restored = Restored(CURRENT.replace(Some(Arc::new(self))));
        build()
    }
}

/// What a node takes of the [`Allowance`] of its model. A copy of the node takes nothing that the
/// node has taken already.
#[derive(Debug, Clone)]
pub(super) struct Account {
    /// None where a program has only registered the operators.
    allowance: Option<Arc<Allowance>>,
    taken: Arc<AtomicU64>,
    /// The steps that computing it has been reckoned to take.
    spent: Arc<AtomicU64>,
    /// What the node was found to be made of, in a model that is being typed.
    origin: Arc<Mutex<NodeOrigin>>,
}

/// What a value is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeOrigin {
    /// Of constants alone: tract computes it while it loads the model.
    Constants,
    /// Of constants and symbols, the sizes of inputs: tract computes nothing before these are set.
    Symbols,
    /// Of inputs, or of what tract does not see through.
    #[default]
    Inputs,
}

impl Account {
    /// An account with the allowance of the model that is being built.
    pub(super) fn open() -> Account {
        let allowance = CURRENT.with_borrow(Clone::clone);
        Account { allowance, taken: Arc::default(), spent: Arc::default(), origin: Arc::default() }
    }

    pub(super) fn allowance(&self) -> Option<&Allowance> {
        self.allowance.as_deref()
    }

    pub(super) fn names(&self) -> Option<Names> {
        self.allowance().map(|allowance| allowance.names.clone())
    }

    /// Takes what a node is about to make of constants, or fails, at a place such as a node, where
    /// that is too much.
    pub(super) fn take(&self, bytes: u64, place: impl FnOnce() -> String) -> Result<(), Error> {
        let Some(allowance) = &self.allowance else { return Ok(()) };
        let more = bytes.saturating_sub(self.taken.fetch_max(bytes, Ordering::Relaxed));
        let add = |made: u64| Some(made.saturating_add(more));
        let before = allowance.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        let made = before.unwrap_or_else(|made| made).saturating_add(more);
        within(place, "made_bytes", made, allowance.limit)
    }

    /// Takes the steps of computing a node, if there is time for them. What there is no time for
    /// takes none.
    pub(super) fn spend(&self, steps: u64) -> bool {
        let Some(allowance) = &self.allowance else { return true };
        let limit = allowance.limit.saturating_mul(STEPS_PER_BYTE);
        let more = steps.saturating_sub(self.spent.load(Ordering::Relaxed));
        let add = |spent: u64| Some(spent.saturating_add(more)).filter(|sum| *sum <= limit);
        let has_time =
            allowance.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if has_time {
            self.spent.fetch_max(steps, Ordering::Relaxed);
        }
        has_time
    }

    /// Fails where a node makes too much of inputs.
    pub(super) fn check_made(&self, bytes: u64, place: impl Fn() -> String) -> Result<(), Error> {
        let Some(allowance) = &self.allowance else { return Ok(()) };
        let made = bytes.saturating_sub(allowance.given);
        within(place, "made_bytes", made, allowance.limit)
    }

    pub(super) fn set_origin(&self, origin: NodeOrigin) {
        *self.origin.lock().unwrap_or_else(PoisonError::into_inner) = origin;
    }

    pub(super) fn origin(&self) -> NodeOrigin {
        *self.origin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of what a fact describes, texts of so many bytes included; `None` where its size is
/// not known, or has symbols.
pub(super) fn bytes(fact: &InferenceFact, text: u64) -> Option<u64> {
    let size = |dim: DimFact| u64::try_from(dim.concretize()?.as_i64()?).ok();
    let dims = fact.shape.concretize().map(|_| fact.shape.dims().cloned())?;
    let sizes: Option<TVec<u64>> = dims.map(size).collect();
    // A fact without a type may turn out to have any.
    let ty = fact.datum_type.concretize().unwrap_or(f64::datum_type());
    let each = ty.size_of() as u64 + if ty == String::datum_type() { text } else { 0 };
    Some(volume(sizes?).saturating_mul(each))
}

/// The bytes of what a typed fact describes, if that is a number.
pub(super) fn typed_bytes(fact: &TypedFact) -> Option<u64> {
    let sizes = fact.shape.iter().map(|dim| u64::try_from(dim.as_i64()?).ok());
    let sizes: Option<TVec<u64>> = sizes.collect();
    Some(volume(sizes?).saturating_mul(fact.datum_type.size_of() as u64))
}

/// How many elements a shape has.
pub(super) fn volume(sizes: TVec<u64>) -> u64 {
    if sizes.contains(&0) { 0 } else { sizes.into_iter().fold(1, u64::saturating_mul) }
}

/// Whether tract would keep a constant of a shape, unless it is made of a larger one. It looks at
/// the size of a result once it has it, so what is made of numbers that nothing knew before asks
/// here first.
pub(crate) fn is_kept(shape: &[usize], ty: DatumType) -> bool {
    let bytes = volume(shape.iter().map(|size| *size as u64).collect());
    bytes.saturating_mul(ty.size_of() as u64) <= CONST_FOLD_MEM_BUDGET
}

/// The bytes of a tensor.
pub(super) fn tensor_bytes(tensor: &Tensor) -> u64 {
    let texts = texts(tensor).iter().map(|text| text.len() as u64).sum::<u64>();
    (tensor.len() as u64).saturating_mul(tensor.datum_type().size_of() as u64).saturating_add(texts)
}

/// The bytes of the longest text of a tensor.
pub(super) fn longest(tensor: &Tensor) -> u64 {
    texts(tensor).iter().map(|text| text.len() as u64).max().unwrap_or(0)
}

fn texts(tensor: &Tensor) -> &[String] {
    match tensor.datum_type() {
        DatumType::String => {
            tensor.try_as_plain_ram().map_or(&[], |view| view.as_slice().unwrap_or(&[]))
        }
        _ => &[],
    }
}
