//! tract's own operators.

use std::collections::HashMap;
use std::sync::OnceLock;

use tract_onnx::Onnx;

pub(crate) use crate::onnx::operators::registered::{Build, Built};

fn table() -> &'static HashMap<String, Build> {
    static STOCK: OnceLock<HashMap<String, Build>> = OnceLock::new();
    STOCK.get_or_init(|| tract_onnx::onnx().op_register.0.into_iter().collect())
}

/// The builder of tract's own operator.
pub(crate) fn stock(operator: &str) -> Option<Build> {
    table().get(operator).copied()
}

/// The operators that tract has.
pub(crate) fn operators() -> impl Iterator<Item = &'static str> {
    table().keys().map(String::as_str)
}

/// Whether nobody has registered another operator in the place of tract's own.
///
/// A register holds nothing but addresses of functions. Both that are compared come from the same
/// code of tract's, so that one function has one address here. Where another function has it too,
/// it does the same.
pub(crate) fn is_stock(onnx: &Onnx, operator: &str) -> bool {
    match (stock(operator), onnx.op_register.0.get(operator)) {
        (Some(stock), Some(current)) => std::ptr::fn_addr_eq(stock, *current),
        _ => false,
    }
}
