//! Output tensors that are allocated without zeros, and the parts of one that kernels write, each
//! by its thread.

#![expect(
    unsafe_code,
    reason = "the bytes of an output are not initialised until a kernel has written them"
)]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_onnx::prelude::{DatumType, Tensor, TractResult};

use super::memory::Memory;
use super::parallel::in_parts;
use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::places::TargetBytes;
use crate::cast::kernel::stream;
use crate::cast::quantize::kernel::{ScaleKernel, Scales};
use crate::cast::quantize::operator::Quantizer;
use crate::cast::text::parse::Parse;

/// What a kernel for a pair of numeric types makes of a tensor of the first one's carrier.
#[inline]
pub(super) fn convert(
    kernel: &dyn Kernel,
    level: Level,
    (from, to): (ElementType, ElementType),
    input: &Tensor,
    memory: &Memory,
) -> TractResult<Tensor> {
    let elements = input.len();
    let [read, written] = [from, to].map(|ty| ty.carrier_bytes().unwrap_or(1));
    let bytes = input.try_as_plain_ram()?.as_bytes();
    // SAFETY: `to` is numeric, so its carrier is one of plain bytes. A kernel writes every byte of
    // the part that it is given an input of as many elements for, 0 or 1 for BOOL, and the parts
    // are all of the output.
    unsafe {
        fill(to.datum_type(), input.shape(), memory, |output| {
            in_parts(output, written, elements, |range, part| {
                let src = &bytes[range.start * read..range.end * read];
                stream::run(kernel, level, (src, read), (part, written), elements);
            });
            Ok(())
        })
    }
}

/// A quantiser's kernel, and the scales that it takes, whose place in the layout they tell.
pub(super) struct Scaling<'a> {
    pub(super) kernel: &'a ScaleKernel,
    pub(super) level: Level,
    pub(super) quantizer: Quantizer,
    pub(super) scales: Scales<'a>,
}

/// What it makes of the bytes of as many elements of its x as a shape has.
pub(super) fn scale(
    scaling: &Scaling,
    (bytes, shape): (&[u8], &[usize]),
    memory: &Memory,
) -> TractResult<Tensor> {
    // SAFETY: y is numeric, so its carrier is one of plain bytes, all of which are written.
    unsafe {
        fill(scaling.quantizer.y().datum_type(), shape, memory, |output| {
            write_scaled(scaling, bytes, output)
        })
    }
}

/// The same, over as many bytes as y has.
pub(super) fn scale_over(scaling: &Scaling, bytes: &[u8], output: &mut [u8]) -> TractResult<()> {
    // SAFETY: the same memory, to which a kernel writes nothing that is not initialised.
    let output =
        unsafe { std::slice::from_raw_parts_mut(output.as_mut_ptr().cast(), output.len()) };
    write_scaled(scaling, bytes, output)
}

/// Writes every byte of an output of as many elements as there are bytes of x for. Fails when it is
/// of another number.
fn write_scaled(
    scaling: &Scaling,
    bytes: &[u8],
    output: &mut [MaybeUninit<u8>],
) -> TractResult<()> {
    let Scaling { kernel, level, quantizer, scales } = *scaling;
    let [read, written] = [quantizer.x(), quantizer.y()].map(|ty| ty.carrier_bytes().unwrap_or(1));
    let elements = output.len() / written;
    let is_of_both = output.len() == elements * written && bytes.len() == elements * read;
    anyhow::ensure!(is_of_both, "another number of bytes");
    // A kernel writes every byte of the part that it is given an input of as many elements for.
    in_parts(output, written, elements, |range, part| {
        let src = &bytes[range.start * read..range.end * read];
        let scales = Scales { first: scales.first + range.start, ..scales };
        kernel.run(level, scales, src, part);
    });
    Ok(())
}

/// The elements of numbers that strings spell, as many as the output's shape asks for; the index of
/// the first string that cannot be read is the error.
#[inline]
pub(super) fn parse(
    parse: &Parse,
    level: Level,
    to: ElementType,
    texts: &[String],
    shape: &[usize],
    memory: &Memory,
) -> TractResult<Result<Tensor, usize>> {
    let width = to.carrier_bytes().unwrap_or(1);
    // Every part has a first element that it cannot read; the first of all is the same however many
    // parts there are.
    let unreadable = AtomicUsize::new(texts.len());
    // SAFETY: `to` is numeric, so its carrier is one of plain bytes. All of them are written, 0 or
    // 1 for BOOL, where every string is read; where not, the tensor is dropped.
    let output = unsafe {
        fill(to.datum_type(), shape, memory, |output| {
            in_parts(output, width, texts.len(), |range, part| {
                let first = range.start;
                if let Err(index) = parse.run(level, &texts[range], TargetBytes::new(part)) {
                    unreadable.fetch_min(first + index, Ordering::Relaxed);
                }
            });
            Ok(())
        })
    };
    let index = unreadable.into_inner();
    output.map(|output| if index < texts.len() { Err(index) } else { Ok(output) })
}

/// A tensor of numbers of which `read` fills a buffer with a piece at a time, given how many bytes
/// are before it. Its errors are those of `read`.
pub(super) fn in_pieces(
    (datum_type, shape): (DatumType, &[usize]),
    piece: usize,
    memory: &Memory,
    mut read: impl FnMut(usize, &mut [u8]) -> TractResult<()>,
) -> TractResult<Tensor> {
    let mut tensor = memory.written(datum_type, shape)?;
    for (place, part) in tensor.as_bytes_mut().chunks_mut(piece.max(1)).enumerate() {
        read(place * piece, part)?;
    }
    Ok(tensor)
}

/// A tensor whose axis `from` is moved to the place `to`; `None` where its elements are no plain
/// words, or several move as one. Fails when there is no memory for it.
pub(crate) fn with_axis_moved(
    input: &Tensor,
    from: usize,
    to: usize,
) -> TractResult<Option<Tensor>> {
    let (first, last) = (from.min(to), from.max(to));
    let shape = input.shape();
    let width = input.datum_type().size_of();
    let is_plain = input.datum_type().is_copy() && input.as_plain_ram().is_some();
    if last >= shape.len() || !is_plain || shape[last + 1..].iter().any(|size| *size != 1) {
        return Ok(None);
    }
    let split = if from < to { from + 1 } else { last };
    let [rows, columns]: [usize; 2] =
        [&shape[first..split], &shape[split..=last]].map(|sizes| sizes.iter().product());
    let turn = match width {
        1 => turn::<1>,
        2 => turn::<2>,
        4 => turn::<4>,
        8 => turn::<8>,
        _ => return Ok(None),
    };
    let mut moved = shape.to_vec();
    let size = moved.remove(from);
    moved.insert(to, size);
    let bytes = input.try_as_plain_ram()?.as_bytes();
    let whole = (rows * columns * width).max(1);
    // SAFETY: the type is one of plain bytes, and each element of each matrix is written to its
    // place.
    let made = unsafe {
        fill(input.datum_type(), &moved, &Memory::default(), |output| {
            let matrices = bytes.chunks_exact(whole).zip(output.chunks_exact_mut(whole));
            matrices.for_each(|(matrix, made)| turn(matrix, made, (rows, columns)));
            Ok(())
        })
    };
    made.map(Some)
}

/// Transposes a matrix of elements of so many bytes in tiles, which stay in the cache.
fn turn<const WIDTH: usize>(
    matrix: &[u8],
    made: &mut [MaybeUninit<u8>],
    (rows, columns): (usize, usize),
) {
    const TILE: usize = 32;
    let (from, to) = (matrix.as_chunks::<WIDTH>().0, made.as_chunks_mut::<WIDTH>().0);
    for top in (0..rows).step_by(TILE) {
        for left in (0..columns).step_by(TILE) {
            for column in left..columns.min(left + TILE) {
                let tile = &mut to[column * rows..][top..rows.min(top + TILE)];
                let strip = from[top * columns + column..].iter().step_by(columns);
                for (to, from) in tile.iter_mut().zip(strip) {
                    // SAFETY: as many bytes of either; they do not overlap.
                    unsafe { to.as_mut_ptr().cast::<[u8; WIDTH]>().write(*from) };
                }
            }
        }
    }
}

/// A new tensor of what `write` writes.
///
/// # Safety
///
/// - The type is one of plain bytes: numeric or bool.
/// - `write` writes every byte, for bool 0 or 1, or the result is not read.
#[inline]
unsafe fn fill(
    datum_type: DatumType,
    shape: &[usize],
    memory: &Memory,
    write: impl FnOnce(&mut [MaybeUninit<u8>]) -> TractResult<()>,
) -> TractResult<Tensor> {
    // SAFETY: that of this function.
    let mut output = unsafe { memory.unwritten(datum_type, shape)? };
    // The bytes of an empty tensor are nowhere, not even aligned.
    if output.len() > 0 {
        let bytes = output.as_bytes_mut();
        // SAFETY: the same memory; what is written to it is initialised.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) };
        write(bytes)?;
    }
    Ok(output)
}

/// A tensor's own buffer as one of another type whose elements are as wide, converted by a kernel
/// between the two.
///
/// The tensor is of `from`'s carrier and not empty, and its bytes are all there is of it.
pub(super) fn convert_in_place(
    kernel: &dyn Kernel,
    level: Level,
    to: ElementType,
    mut tensor: Tensor,
) -> Tensor {
    let elements = tensor.len();
    let bytes = tensor.as_bytes_mut();
    in_parts(bytes, bytes.len() / elements, elements, |_, part| {
        overwrite_by_tiles(kernel, level, part);
    });
    debug_assert_eq!(tensor.datum_type().size_of(), to.datum_type().size_of());
    // SAFETY: both types are of plain bytes and of the same size, and so of the same alignment; a
    // kernel has written what is valid for the new one, and its input was as wide.
    unsafe { tensor.set_datum_type(to.datum_type()) };
    tensor
}

/// Words of 8 bytes that are copied aside at a time when a buffer is converted in place.
const IN_PLACE_TILE: usize = 512;

/// Runs a kernel from a buffer into itself, by way of tiles: kernels read and write different
/// memory. Apart from its caller, so that other casts do not pay for a tile on the stack.
#[inline(never)]
fn overwrite_by_tiles(kernel: &dyn Kernel, level: Level, bytes: &mut [u8]) {
    let mut scratch = [0u64; IN_PLACE_TILE];
    let scratch: &mut [u8] = bytemuck::cast_slice_mut(&mut scratch);
    for tile in bytes.chunks_mut(scratch.len()) {
        let copy = &mut scratch[..tile.len()];
        copy.copy_from_slice(tile);
        kernel.overwrite(level, copy, tile);
    }
}
