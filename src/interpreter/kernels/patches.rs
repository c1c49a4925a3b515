//! `Col2Im`, `DeformConv`, `RoiAlign`: images taken apart, and put together.

use tract_onnx::prelude::tract_ndarray::{Array, ArrayD, Ix2, Ix4, IxDyn, indices};
use tract_onnx::prelude::*;

use super::{KernelInputs, KernelOutputs, KernelSite};
use crate::cast::element_type::ElementType;
use crate::interpreter::value::TypedTensor;

/// Blocks of an image, which are columns one after the other.
struct Columns {
    batch: usize,
    channels: usize,
    image: Vec<usize>,
    block: Vec<usize>,
    /// How many blocks there are along each axis.
    windows: Vec<usize>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
}

/// `Col2Im`: the sum of all that columns say of a place, of integers modulo their range.
pub(super) fn col2im(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let columns = Columns::of(site, inputs)?;
    let image = columns.image.iter().copied();
    let shape: Vec<i64> =
        [columns.batch, columns.channels].into_iter().chain(image).map(|n| n as i64).collect();
    let (x, shape) = (site.input(inputs, 0)?, site.shape(&shape)?);
    macro_rules! sums {
        ($ty:ty, $given:expr, $plus:expr) => {{
            let given = $given;
            let mut y: ArrayD<$ty> = ArrayD::zeros(IxDyn(&shape));
            columns.each(&mut |place, from| {
                if let Some(y) = y.get_mut(place) {
                    *y = $plus(*y, given[from]);
                }
            });
            y
        }};
    }
    macro_rules! integers {
        ($ty:ty) => {{
            let given = x.tensor.to_plain_array_view::<$ty>()?;
            let y = sums!($ty, given, |a: $ty, b: $ty| a.wrapping_add(b));
            TypedTensor::new(x.ty, y.into_tensor())?
        }};
    }
    Ok(vec![match x.ty {
        ElementType::Int8 => integers!(i8),
        ElementType::Int16 => integers!(i16),
        ElementType::Int32 => integers!(i32),
        ElementType::Int64 => integers!(i64),
        ElementType::Uint8 => integers!(u8),
        ElementType::Uint16 => integers!(u16),
        ElementType::Uint32 => integers!(u32),
        ElementType::Uint64 => integers!(u64),
        _ => site.made(sums!(f64, site.doubles(inputs, 0)?, |a: f64, b: f64| a + b), x)?,
    }])
}

impl Columns {
    /// Those of a node, which fit its image.
    fn of(site: &KernelSite, inputs: &KernelInputs) -> TractResult<Columns> {
        let x = &site.input(inputs, 0)?.tensor;
        let &[batch, rows, columns] = x.shape() else {
            return site.refuse(format!("has an input 0 of rank {}, not 3", x.rank()));
        };
        let (image, block) = (site.numbers(inputs, 1)?, site.numbers(inputs, 2)?);
        let rank = image.len();
        let (image, block) = (site.shape(&image)?, site.shape(&block)?);
        let (strides, dilations) =
            (site.sizes("strides", rank, 1)?, site.sizes("dilations", rank, 1)?);
        let pads = site.sizes("pads", 2 * rank, 0)?;
        let size: usize = block.iter().product();
        let mut windows = vec![];
        for axis in 0..block.len() {
            let (Some(pad), Some(stride)) =
                (pads.get(axis).zip(pads.get(axis + rank)), strides.get(axis))
            else {
                return site.refuse("has not as many numbers as axes");
            };
            let field = dilations[axis] * (block[axis] as i64 - 1) + 1;
            let room = image.get(axis).map_or(0, |size| *size as i64) + pad.0 + pad.1 - field;
            windows.push(if *stride > 0 && room >= 0 { (room / stride + 1) as usize } else { 0 });
        }
        if block.len() != rank
            || size == 0
            || rows % size != 0
            || windows.iter().product::<usize>() != columns
        {
            return site.refuse(format!(
                "has columns of {:?} for {image:?} in blocks of {block:?}",
                x.shape()
            ));
        }
        let channels = rows / size;
        Ok(Columns { batch, channels, image, block, windows, strides, dilations, pads })
    }

    /// Tells of each element of the columns to which place of the image it belongs.
    fn each(&self, add: &mut dyn FnMut(&[usize], [usize; 3])) {
        let (rank, size) = (self.image.len(), self.block.iter().product::<usize>());
        let channels = self.channels;
        for (n, channel) in (0..self.batch).flat_map(|n| (0..channels).map(move |at| (n, at))) {
            for (row, tap) in indices(IxDyn(&self.block)).into_iter().enumerate() {
                for (column, window) in indices(IxDyn(&self.windows)).into_iter().enumerate() {
                    let mut place = vec![n, channel];
                    for axis in 0..rank {
                        let at = window[axis] as i64 * self.strides[axis] - self.pads[axis]
                            + tap[axis] as i64 * self.dilations[axis];
                        place.extend(usize::try_from(at).ok());
                    }
                    if place.len() == rank + 2 {
                        add(&place, [n, channel * size + row, column]);
                    }
                }
            }
        }
    }
}

/// A plane's value at a place between its elements; 0 behind its edges.
fn between(plane: &dyn Fn(i64, i64) -> f64, h: f64, w: f64) -> f64 {
    let (top, left) = (h.floor(), w.floor());
    let (down, right) = (h - top, w - left);
    let (top, left) = (top as i64, left as i64);
    (1.0 - down) * ((1.0 - right) * plane(top, left) + right * plane(top, left + 1))
        + down * ((1.0 - right) * plane(top + 1, left) + right * plane(top + 1, left + 1))
}

/// `DeformConv`: a convolution whose taps are moved by offsets, and weighed by a mask.
pub(super) fn deformed(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let four = |place: usize| -> TractResult<Array<f64, Ix4>> {
        Ok(site.of_rank(inputs, place, 4)?.into_dimensionality()?)
    };
    let (x, w, offsets) = (four(0)?, four(1)?, four(2)?);
    let is_given = |place: usize| matches!(inputs.get(place), Some(Some(_)));
    let bias = if is_given(3) { Some(site.of_rank(inputs, 3, 1)?) } else { None };
    let mask = if is_given(4) { Some(four(4)?) } else { None };
    let ((batch, channels, height, width), (made, each, kh, kw)) = (x.dim(), w.dim());
    let (strides, dilations) = (site.sizes("strides", 2, 1)?, site.sizes("dilations", 2, 1)?);
    let pads = site.sizes("pads", 4, 0)?;
    let (group, moved) =
        (site.int("group").max(1) as usize, site.int("offset_group").max(1) as usize);
    let (_, _, rows, columns) = offsets.dim();
    let room = |size: usize, axis: usize, taps: usize| {
        let room =
            size as i64 + pads[axis] + pads[axis + 2] - dilations[axis] * (taps as i64 - 1) - 1;
        if strides[axis] > 0 && room >= 0 { (room / strides[axis] + 1) as usize } else { 0 }
    };
    let fits = site.ints("kernel_shape").is_none_or(|given| given == [kh as i64, kw as i64])
        && channels == each * group
        && made % group == 0
        && channels % moved == 0
        && (rows, columns) == (room(height, 0, kh), room(width, 1, kw))
        && offsets.dim() == (batch, moved * 2 * kh * kw, rows, columns)
        && mask.as_ref().is_none_or(|mask| mask.dim() == (batch, moved * kh * kw, rows, columns))
        && bias.as_ref().is_none_or(|bias| bias.len() == made);
    if !fits {
        let (x, w, offsets) = (x.dim(), w.dim(), offsets.dim());
        return site.refuse(format!("has inputs of {x:?}, {w:?} and {offsets:?} that do not fit"));
    }
    let mut y: Array<f64, Ix4> = Array::zeros((batch, made, rows, columns));
    for ((n, m, row, column), y) in y.indexed_iter_mut() {
        *y = bias.as_ref().map_or(0.0, |bias| bias[[m]]);
        let first = m / (made / group) * each;
        for (c, i, j) in indices((each, kh, kw)) {
            let channel = first + c;
            let of = channel / (channels / moved);
            let tap = i * kw + j;
            let offset = |axis: usize| offsets[[n, (of * kh * kw + tap) * 2 + axis, row, column]];
            let at = |place: usize, tap: usize, axis: usize| {
                (place as i64 * strides[axis] - pads[axis] + tap as i64 * dilations[axis]) as f64
            };
            let (h, v) = (at(row, i, 0) + offset(0), at(column, j, 1) + offset(1));
            let plane = |h: i64, v: i64| match (usize::try_from(h), usize::try_from(v)) {
                (Ok(h), Ok(v)) => x.get((n, channel, h, v)).copied().unwrap_or(0.0),
                _ => 0.0,
            };
            let weight =
                mask.as_ref().map_or(1.0, |mask| mask[[n, of * kh * kw + tap, row, column]]);
            *y += between(&plane, h, v) * weight * w[[m, c, i, j]];
        }
    }
    Ok(vec![site.made(y.into_dyn(), site.input(inputs, 0)?)?])
}

/// `RoiAlign`: of each cell of each region the mean, or the greatest, of samples between the
/// elements.
pub(super) fn aligned(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x: Array<f64, Ix4> = site.of_rank(inputs, 0, 4)?.into_dimensionality()?;
    let regions: Array<f64, Ix2> = site.of_rank(inputs, 1, 2)?.into_dimensionality()?;
    let images = site.numbers(inputs, 2)?;
    let (batch, channels, _, _) = x.dim();
    let (count, height, width) =
        (regions.nrows() as i64, site.int("output_height"), site.int("output_width"));
    let half = match site.word("coordinate_transformation_mode").as_str() {
        "half_pixel" => 0.5,
        // Before opset 16 there was no such attribute.
        "output_half_pixel" | "" => 0.0,
        other => {
            let problem = format!("has attribute `coordinate_transformation_mode` {other:?}");
            return site.refuse(problem);
        }
    };
    let is_max = match site.word("mode").as_str() {
        "avg" => false,
        "max" => true,
        other => return site.refuse(format!("has attribute `mode` {other:?}")),
    };
    let is_there = |image: &i64| usize::try_from(*image).is_ok_and(|image| image < batch);
    if regions.ncols() != 4 || images.len() != regions.nrows() || !images.iter().all(is_there) {
        return site.refuse(format!("has {:?} regions of images {images:?}", regions.dim()));
    }
    let shape = site.shape(&[count, channels as i64, height, width])?;
    let &[_, _, rows, columns] = &shape[..] else { return site.refuse("makes no images") };
    let mut y: Array<f64, Ix4> = Array::zeros((regions.nrows(), channels, rows, columns));
    let (ratio, unit) = (site.int("sampling_ratio"), site.attribute("spatial_scale"));
    let unit = unit.map_or(1.0, |given| f64::from(given.f));
    for (r, image) in images.iter().enumerate() {
        let edge = |at: usize| regions[[r, at]] * unit - half;
        let extent = |size: f64| if half == 0.0 { size.max(1.0) } else { size };
        let cell =
            (extent(edge(3) - edge(1)) / rows as f64, extent(edge(2) - edge(0)) / columns as f64);
        let samples = |cell: f64| if ratio > 0 { ratio } else { cell.ceil() as i64 };
        let (down, across) = (samples(cell.0), samples(cell.1));
        if down.saturating_mul(across) > super::MOST as i64 {
            return site.refuse(format!("takes {down} times {across} samples"));
        }
        let image = usize::try_from(*image)?;
        for (c, row, column) in indices((channels, rows, columns)) {
            let all = (0..down).flat_map(|i| (0..across).map(move |j| (i, j))).map(|(i, j)| {
                let h = edge(1) + cell.0 * (row as f64 + (i as f64 + 0.5) / down as f64);
                let w = edge(0) + cell.1 * (column as f64 + (j as f64 + 0.5) / across as f64);
                corners(&x, (image, c), h, w)
            });
            y[[r, c, row, column]] = if is_max {
                all.flatten().reduce(f64::max).unwrap_or(0.0)
            } else {
                all.flatten().sum::<f64>() / ((down * across) as f64).max(1.0)
            };
        }
    }
    Ok(vec![site.made(y.into_dyn(), site.input(inputs, 0)?)?])
}

/// What each of the four elements around a place of a plane weighs there, times its value; nothing
/// far outside.
fn corners(x: &Array<f64, Ix4>, plane: (usize, usize), h: f64, w: f64) -> [f64; 4] {
    let (_, _, height, width) = x.dim();
    if h < -1.0 || h > height as f64 || w < -1.0 || w > width as f64 {
        return [0.0; 4];
    }
    let clamp = |at: f64, size: usize| at.max(0.0).min(size as f64 - 1.0);
    let (h, w) = (clamp(h, height), clamp(w, width));
    let (down, right) = (h - h.floor(), w - w.floor());
    let at = |i: usize, j: usize| {
        let row = (h.floor() as usize + i).min(height.saturating_sub(1));
        let column = (w.floor() as usize + j).min(width.saturating_sub(1));
        x.get((plane.0, plane.1, row, column)).copied().unwrap_or(0.0)
    };
    [
        (1.0 - down) * (1.0 - right) * at(0, 0),
        (1.0 - down) * right * at(0, 1),
        down * (1.0 - right) * at(1, 0),
        down * right * at(1, 1),
    ]
}
