//! Constant operands of matrix products that are kept in fewer bits than the product computes in.
//! tract's kernels ask for a panel at a time, which is widened then, while it is in the cache:
//! memory holds, and memory's bandwidth moves, what the file has, and the kernels read the same
//! bits as of FLOAT.
//!
//! - `rows`: integers of few bits in blocks, each with a scale and a zero point
//! - `codes`: panels of such rows
//! - `floats`: FLOAT, of what is packed a part at a time while it is read

#![expect(unsafe_code, reason = "tract has a buffer for a panel, which it gives by its address")]

mod codes;
pub(crate) mod floats;
pub(crate) mod rows;

use std::alloc::Layout;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::MaybeUninit;
use std::sync::Arc;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::tract_linalg::mmm::{
    EagerPackedInput, MMMInputFormat, MMMInputValue, PackedExoticFact,
};
use tract_onnx::tract_core::tract_linalg::pack::PackedFormat;

use self::codes::{PanelCodes, RowCodes};
use self::floats::{FloatPanels, PanelRoom};
use self::rows::{QuantizedRows, RowSizes};
use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;

/// The panels of an operand, FLOAT where they are read.
#[derive(Clone)]
pub(crate) struct Panels(Arc<PanelOperand>);

struct PanelOperand {
    /// That of the FLOAT panels.
    format: PackedFormat,
    fact: PackedExoticFact,
    kept: PanelElements,
    level: Level,
}

/// What is kept of a panel.
enum PanelElements {
    /// Elements of half precision in the order of the FLOAT ones, and what casts them.
    Half {
        packed: EagerPackedInput,
        kernel: Arc<dyn Kernel>,
    },
    Codes(PanelCodes),
    /// Many codes of a product that is computed once, for which there is no room.
    Rows(RowCodes),
    Float(FloatPanels),
}

impl Panels {
    /// Those of a tensor of half precision, FLOAT16 or BFLOAT16, all of whose axes but these two
    /// have one element; `None` where the panels are to be in another format than FLOAT's.
    pub(crate) fn of_half(
        format: &dyn MMMInputFormat,
        ty: ElementType,
        tensor: &Tensor,
        [k_axis, mn_axis]: [usize; 2],
    ) -> TractResult<Option<Panels>> {
        let Some(format) = float(format) else { return Ok(None) };
        let own = PackedFormat::new(tensor.datum_type(), format.r, format.alignment_bytes);
        let packed = own.pack_tensor(tensor, k_axis, mn_axis)?;
        let Ok(packed) = packed.downcast::<EagerPackedInput>() else { return Ok(None) };
        let size = [tensor.shape()[k_axis], tensor.shape()[mn_axis]];
        let kernel = select(ty, ElementType::Float, Rules::default());
        Ok(Some(Panels::new(format, size, PanelElements::Half { packed: *packed, kernel })))
    }

    /// Those of rows of codes, packed into memory that others had; `None` where the panels are to
    /// be in another format than FLOAT's, or of an odd number of rows.
    pub(crate) fn of_codes(
        format: &dyn MMMInputFormat,
        rows: &QuantizedRows,
        room: &PanelRoom,
    ) -> Option<Panels> {
        let format = float(format).filter(|_| Panels::take_codes(format))?;
        let codes = PanelCodes::new(rows, format.r, room);
        Some(Panels::new(format, rows.shape(), PanelElements::Codes(codes)))
    }

    /// As [`Panels::of_codes`], for a product that is computed once, of what [`RowSizes::read`]
    /// reads: codes for which no room would be kept stay as they are until a panel is asked for.
    /// Fails where that does.
    pub(crate) fn of_rows(
        format: &dyn MMMInputFormat,
        sizes: RowSizes,
        tensors: [Arc<Tensor>; 3],
        room: &PanelRoom,
    ) -> TractResult<Option<Panels>> {
        let [codes, scales, zeros] = &tensors;
        if codes.len() <= floats::KEPT {
            let pack = |rows: &QuantizedRows| Ok(Panels::of_codes(format, rows, room));
            return sizes.read([codes, scales, zeros], pack);
        }
        let Some(format) = float(format).filter(|_| Panels::take_codes(format)) else {
            return Ok(None);
        };
        let rows = RowCodes::new(sizes, tensors, format.r)?;
        Ok(Some(Panels::new(format, [sizes.k, sizes.n], PanelElements::Rows(rows))))
    }

    /// Whether panels of a format may be those of codes: of FLOAT, and an even number of rows.
    pub(crate) fn take_codes(format: &dyn MMMInputFormat) -> bool {
        float(format).is_some_and(|format| format.r.is_multiple_of(2))
    }

    /// Those that have been written as panels of a format.
    pub(crate) fn of_floats(format: &PackedFormat, floats: FloatPanels) -> Panels {
        Panels::new(format.clone(), floats.shape(), PanelElements::Float(floats))
    }

    fn new(format: PackedFormat, [k, mn]: [usize; 2], kept: PanelElements) -> Panels {
        let fact = PackedExoticFact { format: Box::new(format.clone()), mn: mn.to_dim(), k };
        Panels(Arc::new(PanelOperand { format, fact, kept, level: Level::best() }))
    }

    /// Writes the elements of a panel, of each of K so many as a panel has rows.
    fn write(&self, panel: usize, to: &mut [MaybeUninit<u8>]) -> TractResult<()> {
        match &self.0.kept {
            PanelElements::Half { packed, kernel } => {
                let start = panel * packed.panel_bytes;
                let bytes = packed.packed.as_bytes().get(start..start + to.len() / 2);
                kernel.run(self.0.level, bytes.context("a panel of the operand")?, to);
            }
            PanelElements::Codes(codes) => codes.write(panel, self.0.level, to),
            PanelElements::Rows(rows) => rows.write(panel, self.0.level, to)?,
            PanelElements::Float(_) => bail!("{self} is FLOAT where it is"),
        }
        Ok(())
    }

    /// All panels, FLOAT in memory.
    pub(crate) fn widened(&self) -> TractResult<EagerPackedInput> {
        let mut made = self.0.format.new_packed_buffer(self.k(), self.mn())?;
        let length = made.panel_bytes.max(1);
        let blob = Arc::get_mut(&mut made.packed).context("a buffer of its own")?;
        for (panel, to) in blob.as_bytes_mut().chunks_exact_mut(length).enumerate() {
            let to = to.get_mut(..self.panel_length()).context("room for a panel")?;
            // SAFETY: all of these bytes have been written, and `write` writes values to them.
            let to = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), to.len()) };
            self.write(panel, to)?;
        }
        Ok(made)
    }

    /// The elements of a panel without what tract's kernels have room for behind them, in bytes.
    fn panel_length(&self) -> usize {
        self.k() * self.0.format.r * size_of::<f32>()
    }
}

/// Whether panels are FLOAT, one row beside the other.
pub(crate) fn is_float(format: &dyn MMMInputFormat) -> bool {
    float(format).is_some()
}

/// The format of FLOAT panels, if it is one.
fn float(format: &dyn MMMInputFormat) -> Option<PackedFormat> {
    let format = format.downcast_ref::<PackedFormat>()?;
    (format.dt == f32::datum_type()).then(|| format.clone())
}

impl MMMInputValue for Panels {
    fn format(&self) -> &dyn MMMInputFormat {
        &self.0.format
    }

    fn scratch_panel_buffer_layout(&self) -> Option<Layout> {
        let is_there = matches!(self.0.kept, PanelElements::Float(_));
        (!is_there).then(|| self.0.format.single_panel_layout(self.k(), size_of::<f32>()))
    }

    fn panel_bytes(&self, i: usize, buffer: Option<*mut u8>) -> TractResult<*const u8> {
        if let PanelElements::Float(floats) = &self.0.kept {
            return Ok(floats.panel(i).context("a panel of the operand")?.as_ptr());
        }
        let buffer = buffer.context("room for a panel")?;
        // SAFETY: tract gives a buffer of the layout that `scratch_panel_buffer_layout` asks for,
        // which has room for a panel's elements, and nobody else has it until it asks for the next
        // panel.
        let to = unsafe { std::slice::from_raw_parts_mut(buffer.cast(), self.panel_length()) };
        self.write(i, to)?;
        Ok(buffer)
    }

    fn mn(&self) -> usize {
        self.0.fact.mn.to_usize().unwrap_or(0)
    }

    fn k(&self) -> usize {
        self.0.fact.k
    }

    fn exotic_fact(&self) -> &dyn ExoticFact {
        &self.0.fact
    }

    fn extract_at_mn_f16(&self, _: usize, _: &mut [f16]) -> TractResult<()> {
        bail!("{self} is for products alone")
    }

    fn extract_at_mn_f32(&self, _: usize, _: &mut [f32]) -> TractResult<()> {
        bail!("{self} is for products alone")
    }
}

/// Operands are equal if they are the same.
impl PartialEq for Panels {
    fn eq(&self, other: &Panels) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Panels {}

impl Hash for Panels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.fact.hash(state);
    }
}

impl fmt::Display for Panels {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "narrow {}", self.0.fact)
    }
}

impl fmt::Debug for Panels {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
