//! Tensors of bytes, each looked up in a table.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use anyhow::ensure;
use tract_onnx::prelude::{Tensor, TractResult};

use super::memory::Memory;
use super::output;
use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::lookup;
use crate::cast::kernel::loops::Kernel;

/// What becomes of each carrier byte of a type of at most 8 bits: a carrier byte of another.
#[derive(Clone)]
pub(crate) struct CodeTable {
    pub(crate) from: ElementType,
    pub(crate) to: ElementType,
    pub(crate) table: Arc<[u8; 256]>,
    kernel: Arc<dyn Kernel>,
    level: Level,
    memory: Memory,
}

impl fmt::Debug for CodeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodeTable({} to {})", self.from, self.to)
    }
}

impl PartialEq for CodeTable {
    fn eq(&self, other: &CodeTable) -> bool {
        (self.from, self.to, &self.table) == (other.from, other.to, &other.table)
    }
}

impl Eq for CodeTable {}

impl CodeTable {
    /// A table between two types whose carriers are bytes; `None` where they are not.
    pub(crate) fn new(
        from: ElementType,
        to: ElementType,
        table: [u8; 256],
        memory: &Memory,
    ) -> Option<CodeTable> {
        let are_bytes = [from, to]
            .into_iter()
            .all(|ty| ty.carrier_bytes() == Some(1) && ty != ElementType::Bool);
        are_bytes.then(|| CodeTable {
            from,
            to,
            table: Arc::new(table),
            kernel: lookup::bytes(&table),
            level: Level::best(),
            memory: memory.clone(),
        })
    }

    pub(crate) fn run(&self, input: &Tensor) -> TractResult<Tensor> {
        let (expected, got) = (self.from.datum_type(), input.datum_type());
        ensure!(got == expected, "a tensor of {} is held in {expected:?}, not {got:?}", self.from);
        output::convert(&*self.kernel, self.level, (self.from, self.to), input, &self.memory)
    }
}
