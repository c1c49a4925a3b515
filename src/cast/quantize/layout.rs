//! Which scale, and which zero point, an element has.

#![forbid(unsafe_code)]

/// How the scales are spread over the elements of x, which are in row-major order. Scales are in
/// the order of their own tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScaleLayout {
    /// There is one.
    Tensor,
    /// One for each of the `length` indices of an axis, for rows of `inner` elements.
    Axis { length: usize, inner: usize },
    /// One for each block of `block` indices of an axis of `length` indices, the last block
    /// possibly shorter, and for each index of the other axes; an index of the axis has `inner`
    /// elements.
    Blocks { length: usize, inner: usize, block: usize },
}

impl ScaleLayout {
    /// The layout for an x of a shape, by the operator's attributes and the shape of its scale. The
    /// error says what does not fit.
    pub(crate) fn new(
        shape: &[usize],
        axis: i64,
        block_size: usize,
        scale: &[usize],
    ) -> Result<ScaleLayout, String> {
        if scale.iter().all(|dim| *dim == 1) {
            return Ok(ScaleLayout::Tensor);
        }
        let axis = self::axis(axis, shape.len())?;
        let (length, inner) = (shape[axis], shape[axis + 1..].iter().product());
        if block_size == 0 {
            return match scale {
                [scales] if *scales == length => Ok(ScaleLayout::Axis { length, inner }),
                _ => Err(format!(
                    "a scale of shape {scale:?} fits neither x of shape {shape:?} nor its axis {axis}"
                )),
            };
        }
        // One block takes in the whole axis, yet there is a scale for each index, as ModelOpt
        // writes beside a product that transposes its weights. The first is taken: that of the
        // block.
        let are_of_axis = |(index, scales): (usize, &usize)| {
            if index == axis { *scales == length } else { *scales == 1 }
        };
        let has_rank = scale.len() == shape.len();
        if block_size >= length && has_rank && scale.iter().enumerate().all(are_of_axis) {
            return Ok(ScaleLayout::Tensor);
        }
        let fits = |(index, (dim, scales)): (usize, (&usize, &usize))| {
            if index == axis { dim.div_ceil(block_size) == *scales } else { dim == scales }
        };
        if !has_rank || !shape.iter().zip(scale).enumerate().all(fits) {
            return Err(format!(
                "a scale of shape {scale:?} does not fit `block_size` {block_size} along axis {axis} of x of shape {shape:?}"
            ));
        }
        Ok(ScaleLayout::Blocks { length, inner, block: block_size })
    }

    /// The place of an element's scale among the scales, as their tensor has them.
    pub(crate) fn scale_of(self, element: usize) -> usize {
        match self {
            ScaleLayout::Tensor => 0,
            ScaleLayout::Axis { length, inner } => element / inner % length,
            ScaleLayout::Blocks { length, inner, block } => {
                let (outer, index) = (element / inner / length, element / inner % length);
                (outer * length.div_ceil(block) + index / block) * inner + element % inner
            }
        }
    }
}

/// The place of an axis that may be counted from the back.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let from_front = if axis < 0 { axis.saturating_add_unsigned(rank as u64) } else { axis };
    let found = usize::try_from(from_front).ok().filter(|axis| *axis < rank);
    found.ok_or_else(|| format!("attribute `axis` is {axis}, and x has rank {rank}"))
}
