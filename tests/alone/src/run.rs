//! Kernels outside of tract, for programs that time them or count their instructions.

use std::sync::Arc;

use crate::cast::element_type::{ElementType, Family};
pub use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;
use crate::cast::scalar::{convert, write_carrier};

/// The kernel of a pair, some elements that every type holds, and memory for the results.
pub struct Run {
    kernel: Arc<dyn Kernel>,
    source: Vec<u64>,
    target: Vec<u64>,
    /// Bytes of both.
    bytes: [usize; 2],
}

impl Run {
    /// Of numeric types; `None` if there is none of such a name.
    pub fn of(from: &str, to: &str, elements: usize) -> Option<Run> {
        let named = |name: &str| numeric().find(|ty| ty.to_string() == name);
        let (from, to) = (named(from)?, named(to)?);
        let widths = [from, to].map(|ty| ty.carrier_bytes().unwrap_or(1));
        let [source, target] = widths.map(|width| vec![0u64; (elements * width).div_ceil(8)]);
        let kernel = select(from, to, Rules::default());
        let mut run = Run { kernel, source, target, bytes: widths.map(|width| width * elements) };
        let places = bytemuck::cast_slice_mut::<u64, u8>(&mut run.source);
        for (place, index) in places[..run.bytes[0]].chunks_mut(widths[0]).zip(0..) {
            let number = (f64::from(index % 97) * 0.25).to_bits();
            let code = convert(ElementType::Double, from, Rules::default(), number);
            write_carrier(from, code.unwrap_or_default(), place);
        }
        Some(run)
    }

    /// The names of all pairs of different types.
    pub fn pairs() -> impl Iterator<Item = (String, String)> {
        let pairs = numeric().flat_map(|from| numeric().map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).map(|(from, to)| (from.to_string(), to.to_string()))
    }

    /// Bytes that are read and written.
    pub fn bytes(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// Converts all elements.
    pub fn run(&mut self, level: Level) {
        let [read, written] = self.bytes;
        let source = &bytemuck::cast_slice(&self.source)[..read];
        let target = &mut bytemuck::cast_slice_mut(&mut self.target)[..written];
        self.kernel.overwrite(level, source, target);
    }
}

fn numeric() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text)
}
