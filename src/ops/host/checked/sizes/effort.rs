//! What tract's simplifier takes for an expression of symbols, told without simplifying it.
//!
//! `TDim::reduce` (`tract-data/src/dim/tree.rs`) writes an expression in every form that moving its
//! divisions gives, the product of those of the terms of a sum, and simplifies each; every level of
//! an expression is simplified anew for those above it; and what of a minimum or maximum is
//! redundant is told from the differences of all pairs. `TDim::expand_polynomial` multiplies sums
//! out.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use tract_onnx::tract_core::internal::TDim;

/// What several expressions take that one operator looks at together: it may add or multiply all of
/// them.
#[derive(Debug, Clone, Default)]
pub(super) struct Together {
    known: RandomState,
    seen: HashSet<u64>,
    sum: Effort,
}

impl Together {
    /// Adds an expression, unless it has been added before.
    pub(super) fn add(&mut self, dim: &TDim) {
        if dim.as_i64().is_none() && self.seen.insert(self.known.hash_one(dim)) {
            let effort = Effort::of(dim, 0);
            self.sum = Effort {
                forms: self.sum.forms.saturating_mul(effort.forms),
                products: self.sum.products.saturating_mul(effort.products),
                steps: self.sum.steps.saturating_add(effort.steps),
            };
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.sum.total()
    }
}

/// What an expression takes by itself.
pub(super) fn effort(dim: &TDim) -> u64 {
    if dim.as_i64().is_some() { 0 } else { Effort::of(dim, 0).total() }
}

#[derive(Debug, Clone, Copy)]
struct Effort {
    /// In how many forms it is written.
    forms: u64,
    /// How many terms it has when it is multiplied out.
    products: u64,
    /// What simplifying one form takes, a symbol being 1.
    steps: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { forms: 1, products: 1, steps: 1 }
    }
}

impl Effort {
    const TOO_MUCH: Effort = Effort { forms: u64::MAX, products: u64::MAX, steps: u64::MAX };

    fn total(self) -> u64 {
        self.forms.max(self.products).saturating_mul(self.steps)
    }

    /// So that this many of another are simplified.
    fn times(self, factor: u64) -> Effort {
        Effort { steps: self.steps.saturating_mul(factor).saturating_add(1), ..self }
    }

    fn of(dim: &TDim, depth: usize) -> Effort {
        /// As deep as nothing is that is worth simplifying.
        const DEEPEST: usize = 32;
        const GREATEST: u64 = 1 << 31;
        if depth > DEEPEST {
            return Effort::TOO_MUCH;
        }
        let of = |dim: &TDim| Effort::of(dim, depth + 1);
        match dim {
            // tract multiplies them without a look at what overflows.
            TDim::Div(_, divisor) if *divisor > GREATEST => Effort::TOO_MUCH,
            TDim::Val(_) | TDim::Sym(_) => Effort::default(),
            TDim::MulInt(_, dim) => of(dim).times(2),
            TDim::Div(dim, _) => {
                let effort = of(dim).times(3);
                let more = if matches!(**dim, TDim::Add(_)) { 2 } else { 1 };
                Effort { forms: effort.forms.saturating_mul(more), products: 1, ..effort }
            }
            TDim::Add(terms) => {
                let divides = terms.iter().any(divides);
                let efforts = terms.iter().map(of);
                let sum =
                    efforts.fold(Effort { products: 0, ..Effort::default() }, |sum, term| Effort {
                        forms: sum.forms.saturating_mul(term.forms),
                        products: sum.products.saturating_add(term.products),
                        steps: sum.steps.saturating_add(term.steps),
                    });
                let forms = if divides { sum.forms.saturating_mul(2) } else { sum.forms };
                Effort { forms, ..sum }.times(2)
            }
            TDim::Mul(terms) => terms.iter().map(of).fold(Effort::default(), |sum, term| Effort {
                forms: 1,
                products: sum.products.saturating_mul(term.products),
                steps: sum.steps.saturating_add(term.times(term.forms.saturating_add(1)).steps),
            }),
            TDim::Broadcast(terms) => {
                Effort::apart(terms.iter().map(of), |a, b| a.steps.saturating_add(b.steps))
            }
            TDim::Min(terms) | TDim::Max(terms) => {
                Effort::apart(terms.iter().map(of), Effort::difference)
            }
            TDim::Ge(a, b) | TDim::Eq(a, b) => {
                Effort::apart([of(a), of(b)].into_iter(), Effort::difference)
            }
        }
    }

    /// What is written in one form, and compared in pairs.
    fn apart(
        terms: impl Iterator<Item = Effort>,
        compare: impl Fn(Effort, Effort) -> u64,
    ) -> Effort {
        let terms: Vec<Effort> = terms.collect();
        let mut steps = 1u64;
        for (index, a) in terms.iter().enumerate() {
            for b in terms.iter().skip(index + 1) {
                steps = steps.saturating_add(compare(*a, *b));
            }
        }
        Effort { forms: 1, products: 1, steps }
    }

    /// What it takes to tell whether one is never less than the other.
    fn difference(self, other: Effort) -> u64 {
        const TRIES: u64 = 32;
        let forms = self.forms.saturating_mul(other.forms);
        self.steps.saturating_add(other.steps).saturating_mul(forms).saturating_mul(TRIES)
    }
}

/// Whether a term of a sum is a quotient.
fn divides(term: &TDim) -> bool {
    match term {
        TDim::Div(..) => true,
        TDim::MulInt(_, term) => divides(term),
        _ => false,
    }
}
