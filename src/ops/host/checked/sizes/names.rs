//! Symbols that stand for expressions, and what they stand for.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tract_onnx::tract_core::internal::*;

use super::effort::effort;
use crate::ops::host::saved::{Parameter, Row, Saved};

/// What one expression may take, in the steps of [`effort`]: tract still finds two of equal value
/// to be equal then, in whatever form it has written them.
const ALONE: u64 = 1 << 9;

/// The symbols that stand for expressions in one model. Equal expressions have the same.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<SymbolTable>>);

#[derive(Default)]
struct SymbolTable {
    /// By how the expression is written: comparing expressions may take tract as long as
    /// simplifying them.
    symbols: HashMap<String, Symbol>,
    /// Each is made of symbols of the model, and of those before it.
    defined: Vec<(Symbol, TDim)>,
    places: HashMap<Symbol, usize>,
    /// The model's own symbols that each is made of, in the same order.
    made_of: Vec<HashSet<Symbol>>,
    /// By how they are written.
    constants: HashMap<String, Arc<Tensor>>,
    /// The first number that may not be that of a symbol.
    next: usize,
}

impl SymbolTable {
    fn define(&mut self, symbol: Symbol, dim: TDim, written: String) {
        let mut made_of = HashSet::new();
        for inner in dim.symbols() {
            match self.places.get(&inner).and_then(|place| self.made_of.get(*place)) {
                Some(own) => made_of.extend(own.iter().cloned()),
                None => drop(made_of.insert(inner)),
            }
        }
        self.made_of.push(made_of);
        self.symbols.insert(written, symbol.clone());
        self.places.insert(symbol.clone(), self.defined.len());
        self.defined.push((symbol, dim));
    }
}

/// Whether an expression takes little enough to be kept.
pub(super) fn is_short(dim: &TDim) -> bool {
    effort(dim) <= ALONE
}

/// A symbol of a name that the model does not have. tract has the like, but it tries all numbers
/// from 0 each time.
pub(crate) fn new_symbol(symbols: &SymbolScope, name: &str, first: &mut usize) -> Symbol {
    let name = |number: usize| match number {
        0 => name.to_owned(),
        number => format!("{name}_{}", number - 1),
    };
    while symbols.get(&name(*first)).is_some() {
        *first += 1;
    }
    symbols.sym(&name(*first))
}

/// What it holds may be long.
impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Names) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Names {}

impl Names {
    fn table(&self) -> MutexGuard<'_, SymbolTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The symbol that stands for an expression.
    pub(super) fn name(&self, dim: &TDim) -> TDim {
        if let TDim::Sym(_) | TDim::Val(_) = dim {
            return dim.clone();
        }
        let Some(scope) = dim.find_scope() else { return dim.clone() };
        let mut table = self.table();
        let written = format!("{dim:?}");
        if let Some(symbol) = table.symbols.get(&written) {
            return symbol.to_dim();
        }
        let symbol = new_symbol(&scope, "size", &mut table.next);
        table.define(symbol.clone(), dim.clone(), written);
        symbol.to_dim()
    }

    /// A symbol in the place of an expression that takes too much, and no symbol where it takes
    /// little.
    pub(super) fn short(&self, dim: &TDim) -> TDim {
        if !is_short(dim) {
            return self.name(dim);
        }
        let TDim::Sym(symbol) = dim else { return dim.clone() };
        let table = self.table();
        let place = table.places.get(symbol);
        let defined = place.and_then(|place| table.defined.get(*place)).map(|(_, defined)| defined);
        defined.filter(|defined| is_short(defined)).unwrap_or(dim).clone()
    }

    /// The one value that is written so: this, unless there is another.
    pub(super) fn constant(&self, written: String, value: Arc<Tensor>) -> Arc<Tensor> {
        Arc::clone(self.table().constants.entry(written).or_insert(value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table().defined.is_empty()
    }

    /// Those of the symbols that are in expressions.
    pub(super) fn within<'a>(&self, dims: impl Iterator<Item = &'a TDim>) -> TVec<Symbol> {
        if self.is_empty() {
            return tvec!();
        }
        let found: HashSet<Symbol> = dims.flat_map(TDim::symbols).collect();
        let table = self.table();
        let own = found.into_iter().filter(|symbol| table.places.contains_key(symbol));
        let mut own: TVec<Symbol> = own.collect();
        own.sort();
        own
    }

    /// What symbols stand for, with all that they are made of, as far as that has no values, in
    /// order.
    fn definitions(&self, symbols: &[Symbol], values: &SymbolValues) -> Vec<(Symbol, TDim)> {
        let table = self.table();
        let mut todo: Vec<Symbol> = symbols.to_vec();
        let mut needed: HashSet<usize> = HashSet::new();
        while let Some(symbol) = todo.pop() {
            let place = table.places.get(&symbol).copied();
            if let Some((place, (_, dim))) =
                place.and_then(|place| Some((place, table.defined.get(place)?)))
                && values.get(&symbol).is_none()
                && needed.insert(place)
            {
                todo.extend(dim.symbols());
            }
        }
        let mut needed: Vec<usize> = needed.into_iter().collect();
        needed.sort_unstable();
        needed.iter().filter_map(|place| table.defined.get(*place).cloned()).collect()
    }

    /// The model's own symbols that symbols are made of.
    pub(super) fn made_of(&self, symbols: &[Symbol]) -> TVec<Symbol> {
        let table = self.table();
        let places = symbols.iter().filter_map(|symbol| table.places.get(symbol));
        let own = places.filter_map(|place| table.made_of.get(*place)).flatten();
        own.collect::<HashSet<&Symbol>>().into_iter().cloned().collect()
    }

    /// The values with those of symbols, as far as they can be told.
    pub(super) fn evaluate(&self, symbols: &[Symbol], values: &SymbolValues) -> SymbolValues {
        let mut values = values.clone();
        for (symbol, dim) in self.definitions(symbols, &values) {
            if let Some(value) = dim.maybe_eval_to_i64(&values) {
                values.set(&symbol, value);
            }
        }
        values
    }

    /// What symbols stand for, to be saved with an operator.
    pub(super) fn save(&self, symbols: &[Symbol]) -> Saved {
        Saved::default().with(&self.definitions(symbols, &SymbolValues::default()))
    }
}

impl Parameter for Names {
    fn put(&self, saved: &mut Saved) {
        self.table().defined.put(saved);
    }

    fn take(row: &mut Row) -> TractResult<Names> {
        let names = Names::default();
        for (name, dim) in row.take::<Vec<(Symbol, TDim)>>()? {
            let written = format!("{dim:?}");
            names.table().define(name, dim, written);
        }
        Ok(names)
    }
}
