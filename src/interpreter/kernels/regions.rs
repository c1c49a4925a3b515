//! `MaxRoiPool` and `FeatureVectorizer`.

use tract_onnx::prelude::tract_ndarray::{Array2, Array4, ArrayD, Axis, concatenate, indices};
use tract_onnx::prelude::*;

use super::{KernelInputs, KernelOutputs, KernelSite};
use crate::cast::element_type::ElementType;
use crate::interpreter::value::TypedTensor;

/// `MaxRoiPool`: the greatest of each cell of a grid over each region, and 0 of a cell that is
/// empty. Bounds are numbers of FLOAT, as in ONNX Runtime (`roi_pool.cc`).
pub(super) fn greatest(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x: Array4<f64> = site.of_rank(inputs, 0, 4)?.into_dimensionality()?;
    let rois: Array2<f64> = site.of_rank(inputs, 1, 2)?.into_dimensionality()?;
    let sizes = site.sizes("pooled_shape", 2, 1)?;
    let scale = site.attribute("spatial_scale").map_or(1.0, |scale| scale.f);
    let (batch, channels, height, width) = x.dim();
    if rois.ncols() != 5 || sizes.contains(&0) {
        let (columns, sizes) = (rois.ncols(), &sizes);
        return site.refuse(format!("has regions of {columns} numbers for a grid of {sizes:?}"));
    }
    let shape = [rois.nrows() as i64, channels as i64, sizes[0], sizes[1]];
    let mut y = ArrayD::<f64>::zeros(site.shape(&shape)?);
    for (place, roi) in rois.axis_iter(Axis(0)).enumerate() {
        if !(roi[0] >= 0.0 && roi[0] < batch as f64) {
            return site.refuse(format!("has a region of image {} of {batch}", roi[0]));
        }
        let image = roi[0] as usize;
        let bound = |at: usize| (roi[at] as f32 * scale).round();
        let rows = cells(bound(2), bound(4), y.shape()[2], height);
        let columns = cells(bound(1), bound(3), y.shape()[3], width);
        for (channel, row, column) in indices((channels, rows.len(), columns.len())) {
            let ([top, bottom], [left, right]) = (rows[row], columns[column]);
            let places = indices((bottom - top, right - left)).into_iter();
            let cell = places.map(|(i, j)| x[[image, channel, top + i, left + j]]);
            y[[place, channel, row, column]] = cell.reduce(f64::max).unwrap_or(0.0);
        }
    }
    Ok(vec![site.made(y, site.input(inputs, 0)?)?])
}

/// Where the cells of an axis begin and end, of which there are `size` places.
fn cells(first: f32, last: f32, count: usize, size: usize) -> Vec<[usize; 2]> {
    let length = (last - first + 1.0).max(1.0) / count as f32;
    let within = |at: f32| (at + first).clamp(0.0, size as f32) as usize;
    let cell = |place: usize| {
        let start = within((place as f32 * length).floor());
        [start, within(((place + 1) as f32 * length).ceil()).max(start)]
    };
    (0..count).map(cell).collect()
}

/// `FeatureVectorizer`: the columns of its inputs beside each other, as FLOAT.
pub(super) fn features(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let sizes = site.ints("inputdimensions").unwrap_or_default();
    if sizes.len() != inputs.len() {
        let (sizes, inputs) = (sizes.len(), inputs.len());
        return site.refuse(format!("has {sizes} `inputdimensions` of {inputs} inputs"));
    }
    let mut parts: Vec<Array2<f64>> = vec![];
    for (place, size) in sizes.iter().enumerate() {
        let mut part = site.doubles(inputs, place)?;
        if part.ndim() == 1 {
            part = part.insert_axis(Axis(0));
        }
        let columns = part.shape().get(1).copied().unwrap_or_default();
        let is_same = parts.iter().all(|other| part.shape().first() == Some(&other.nrows()));
        if part.ndim() != 2 || !is_same || *size != columns as i64 {
            let shape = part.shape();
            let problem = format!("has input {place} of shape {shape:?} and dimension {size}");
            return site.refuse(problem);
        }
        parts.push(part.into_dimensionality()?);
    }
    let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
    if views.is_empty() {
        return site.refuse("has no inputs");
    }
    let all = concatenate(Axis(1), &views)?.into_dyn().into_tensor();
    let all = TypedTensor::new(ElementType::Float, all.cast_to::<f32>()?.into_owned())?;
    Ok(vec![all])
}
