//! The sizes of symbolic dimensions.

use anyhow::{Context, bail, ensure};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{DimFact, Factoid, ShapeFactoid};
use tract_onnx::tract_hir::internal::solve_for;

use crate::cli::input::declared::Declared;
use crate::cli::message::{at, names};

/// The sizes of the symbolic dimensions, from `--set` and from the shapes of the tensors that are
/// given. Fails when the model has no such symbol, or a given tensor's shape is not what it
/// declares.
pub(crate) fn find(
    model: &Declared,
    set: &[(String, usize)],
    given: &[Option<&[usize]>],
) -> TractResult<SymbolValues> {
    let mut sizes = SymbolValues::default();
    for (place, (name, size)) in set.iter().enumerate() {
        let is_again = set.iter().take(place).any(|(other, _)| other == name);
        ensure!(!is_again, "--set {name}: is given twice");
        if let Some((_, only)) = model.of_weights.iter().find(|(symbol, _)| symbol == name) {
            ensure!(size == only, "--set {name}={size}: the model's weights make it {only}");
            continue;
        }
        let Some(symbol) = model.symbols.get(name) else {
            let symbols = model.symbols.all_symbols();
            let symbols = symbols.iter().map(ToString::to_string);
            let settled = model.of_weights.iter().map(|(symbol, _)| symbol.clone());
            let symbols: Vec<String> = symbols.chain(settled).collect();
            let symbols = names(symbols.iter().map(String::as_str));
            bail!("--set {name}={size}: the model has no such symbol; its symbols: {symbols}");
        };
        sizes.set(&symbol, i64::try_from(*size)?);
    }
    let given = || {
        let given = model.inputs.iter().zip(given);
        given.filter_map(|(input, shape)| Some((input, (*shape)?)))
    };
    // Once a size is known from one input, an expression in another's shape may tell a further one;
    // so try all inputs again until nothing new is learnt.
    loop {
        let mut has_learnt = false;
        for (input, shape) in given() {
            let learnt = learn(&input.shape, shape, &mut sizes);
            has_learnt |= at(format!("input `{}`", input.name), learnt)?;
        }
        if !has_learnt {
            return Ok(sizes);
        }
    }
}

/// Learns symbols' sizes from an actual shape. The result is whether there was a new one.
fn learn(declared: &ShapeFactoid, actual: &[usize], sizes: &mut SymbolValues) -> TractResult<bool> {
    let differs =
        |with: &str| format!("its shape is {actual:?}, the model declares [{declared:?}]{with}");
    let rank = declared.rank().concretize();
    ensure!(rank.is_none_or(|rank| rank == actual.len() as i64), "{}", differs(""));
    let mut has_learnt = false;
    for (declared, actual) in declared.dims().zip(actual) {
        let Some(declared) = declared.concretize() else {
            continue;
        };
        let actual = i64::try_from(*actual)?;
        let rest = declared.eval(sizes);
        let unknown: Vec<Symbol> = rest.symbols().into_iter().collect();
        match unknown.as_slice() {
            [] => {
                let known = declared.symbols().into_iter();
                let known = known.filter_map(|s| Some(format!(" with {s} = {}", sizes.get(&s)?)));
                ensure!(rest.as_i64() == Some(actual), "{}", differs(&known.collect::<String>()));
            }
            [symbol] => {
                let size = solve_for(symbol, &rest, &actual.to_dim()).and_then(|s| s.as_i64());
                if let Some(size) = size.filter(|size| *size >= 0) {
                    sizes.set(symbol, size);
                    has_learnt = true;
                }
            }
            _ => {}
        }
    }
    Ok(has_learnt)
}

/// Whether a declared shape can be an actual one.
pub(crate) fn fits(declared: &ShapeFactoid, actual: &[usize]) -> bool {
    learn(declared, actual, &mut SymbolValues::default()).is_ok()
}

/// Whether the model takes tensors of these shapes, its symbols being the same size wherever they
/// occur. Fails when a shape is not what the model declares.
pub(crate) fn check_shapes(model: &Declared, shapes: &[Vec<usize>]) -> TractResult<()> {
    find(model, &[], &shapes.iter().map(|shape| Some(shape.as_slice())).collect::<Vec<_>>())
        .map(|_| ())
}

/// The declared shape as numbers: a symbol whose size is not known is 1, and an axis without one as
/// large as `open` says. Fails when not even the number of dimensions is declared, or a dimension
/// would be negative.
pub(crate) fn with_sizes(
    declared: &ShapeFactoid,
    sizes: &SymbolValues,
    open: impl Fn(usize) -> usize,
) -> TractResult<Vec<usize>> {
    ensure!(!declared.is_open(), "the model declares no shape for it; it must be given");
    let size = |(axis, declared): (usize, &DimFact)| {
        let Some(declared) = declared.concretize() else {
            return Ok(open(axis));
        };
        let mut sizes = sizes.clone();
        for symbol in declared.symbols() {
            if sizes.get(&symbol).is_none() {
                sizes.set(&symbol, 1);
            }
        }
        let size = declared.eval_to_i64(&sizes)?;
        usize::try_from(size).with_context(|| format!("its dimension {declared} is {size}"))
    };
    declared.dims().enumerate().map(size).collect()
}
