//! Operators that move elements, and those that measure and make shapes.

use tract_onnx_cast::ElementType;

use crate::eval::{Attributes, Inputs};
use crate::tensor::{Val, axis_of, broadcast, indices, place, sources, volume};

use ElementType::{Bool, Float, Int32, Int64};

/// No graph needs more elements.
const MOST: usize = 256;

pub fn eval(op: &str, attributes: Attributes, inputs: Inputs) -> Option<Vec<Val>> {
    let input = |at: usize| inputs.get(at).copied().flatten();
    if op == "Constant" {
        return Some(vec![attributes.tensor("value")?.clone()]);
    }
    let x = input(0)?;
    let second = || input(1)?.i64s();
    let val = match op {
        "Shape" => {
            let rank = x.shape.len() as i64;
            let end = |name: &str, default: i64| {
                let at = attributes.int(name).unwrap_or(default);
                (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize
            };
            let (start, end) = (end("start", 0), end("end", rank));
            let sizes = x.shape.get(start..end.max(start))?;
            Val::int64(&sizes.iter().map(|size| *size as i64).collect::<Vec<_>>())
        }
        "Size" => Val::int64(&[x.codes.len() as i64]).reshaped(vec![])?,
        "Reshape" => reshape(attributes, x, &second()?)?,
        "Flatten" => {
            let rank = x.shape.len() as i64;
            let axis = attributes.int("axis").unwrap_or(1);
            let axis = if axis < 0 { axis + rank } else { axis };
            let axis = (0..=rank).contains(&axis).then_some(axis as usize)?;
            x.reshaped(vec![volume(&x.shape[..axis]), volume(&x.shape[axis..])])?
        }
        "Transpose" => transpose(attributes, x)?,
        "Squeeze" => {
            let axes = match input(1) {
                Some(axes) => axes_of(&axes.i64s()?, x.shape.len())?,
                None => (0..x.shape.len()).filter(|axis| x.shape[*axis] == 1).collect(),
            };
            let is_one = axes.iter().all(|axis| x.shape[*axis] == 1);
            let kept = (0..x.shape.len()).filter(|axis| !axes.contains(axis));
            is_one.then(|| x.reshaped(kept.map(|axis| x.shape[axis]).collect()))??
        }
        "Unsqueeze" => {
            let axes = second()?;
            let rank = x.shape.len() + axes.len();
            let axes = axes_of(&axes, rank)?;
            let mut sizes = x.shape.iter();
            let size =
                |axis: usize| if axes.contains(&axis) { Some(1) } else { sizes.next().copied() };
            x.reshaped((0..rank).map(size).collect::<Option<_>>()?)?
        }
        "Concat" => concat(attributes, inputs)?,
        "Split" => return split(attributes, x, input(1)),
        "Slice" => slice(x, inputs)?,
        "Gather" => {
            let axis = axis_of(attributes.int("axis").unwrap_or(0), x.shape.len())?;
            let places = places_of(input(1)?, x.shape[axis])?;
            let shape = [&x.shape[..axis], &input(1)?.shape, &x.shape[axis + 1..]].concat();
            let inner = volume(&x.shape[axis + 1..]);
            let outer = volume(&x.shape[..axis]);
            let block = |outer: usize, at: usize| {
                let start = (outer * x.shape[axis] + at) * inner;
                start..start + inner
            };
            let all = (0..outer).flat_map(|o| places.iter().flat_map(move |at| block(o, *at)));
            small(x.picked(shape, all.collect::<Vec<_>>())?)?
        }
        "GatherElements" => {
            let axis = axis_of(attributes.int("axis").unwrap_or(0), x.shape.len())?;
            let to = input(1)?;
            let fits = |(own, other): (usize, (&usize, &usize))| own == axis || other.0 <= other.1;
            if to.shape.len() != x.shape.len()
                || !to.shape.iter().zip(&x.shape).enumerate().all(fits)
            {
                return None;
            }
            let places = places_of(to, x.shape[axis])?;
            let source = |(mut index, at): (Vec<usize>, &usize)| {
                index[axis] = *at;
                place(&x.shape, &index)
            };
            x.picked(
                to.shape.clone(),
                indices(&to.shape).zip(&places).map(source).collect::<Vec<_>>(),
            )?
        }
        "GatherND" => gather_nd(x, input(1)?)?,
        "Expand" => {
            let to: Option<Vec<usize>> = second()?
                .iter()
                .map(|size| usize::try_from(*size).ok().filter(|s| *s <= MOST))
                .collect();
            let shape = broadcast(&[&x.shape, &to?])?;
            small_shape(&shape)?;
            x.picked(shape.clone(), sources(&x.shape, &shape))?
        }
        "Tile" => {
            let repeats: Option<Vec<usize>> = second()?
                .iter()
                .map(|count| usize::try_from(*count).ok().filter(|c| *c <= MOST))
                .collect();
            let repeats = repeats.filter(|repeats| repeats.len() == x.shape.len())?;
            let shape: Vec<usize> = x.shape.iter().zip(&repeats).map(|(a, b)| a * b).collect();
            small_shape(&shape)?;
            let source = |index: Vec<usize>| {
                let own: Vec<usize> =
                    index.iter().zip(&x.shape).map(|(at, size)| at % size).collect();
                place(&x.shape, &own)
            };
            x.picked(shape.clone(), indices(&shape).map(source).collect::<Vec<_>>())?
        }
        "Pad" => pad(attributes, x, inputs)?,
        "ConstantOfShape" => {
            let zero = Val::new(Float, vec![1], vec![0]);
            let value = attributes.tensor("value").unwrap_or(&zero);
            let shape: Option<Vec<usize>> = x
                .i64s()?
                .iter()
                .map(|size| usize::try_from(*size).ok().filter(|s| *s <= MOST))
                .collect();
            let shape = shape?;
            small_shape(&shape)?;
            let codes = vec![value.codes[0]; volume(&shape)];
            Val::new(value.ty, shape, codes)
        }
        "Range" => range(x, input(1)?, input(2)?)?,
        "NonZero" => {
            let is_zero = |code: u64| {
                if x.is_float() {
                    Val::new(x.ty, vec![], vec![code]).floats()[0] == 0.0
                } else {
                    code == 0
                }
            };
            if !(x.is_float() || x.is_int() || x.ty == Bool) {
                return None;
            }
            let found: Vec<Vec<usize>> = indices(&x.shape)
                .zip(&x.codes)
                .filter(|(_, code)| !is_zero(**code))
                .map(|(i, _)| i)
                .collect();
            let places =
                (0..x.shape.len()).flat_map(|axis| found.iter().map(move |i| i[axis] as i128));
            Val::of_ints(Int64, vec![x.shape.len(), found.len()], places)
        }
        "OneHot" => one_hot(attributes, x, input(1)?, input(2)?)?,
        "Compress" => {
            let condition = input(1).filter(|c| c.ty == Bool && c.shape.len() == 1)?;
            let axis = axis_of(attributes.int("axis")?, x.shape.len())?;
            let kept: Vec<i64> = (0..condition.codes.len())
                .filter(|at| condition.codes[*at] == 1)
                .map(|at| at as i64)
                .collect();
            (condition.codes.len() <= x.shape[axis]).then_some(())?;
            return eval("Gather", attributes, &[Some(x), Some(&Val::int64(&kept))]);
        }
        _ => return None,
    };
    Some(vec![val])
}

fn small(val: Val) -> Option<Val> {
    (val.codes.len() <= MOST).then_some(val)
}

fn small_shape(shape: &[usize]) -> Option<()> {
    let sizes = shape.iter().map(|size| (*size).max(1)).try_fold(1usize, usize::checked_mul)?;
    (sizes <= MOST && shape.len() <= 5).then_some(())
}

/// Axes that differ.
fn axes_of(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let axes: Vec<usize> = axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Option<_>>()?;
    let is_twice = |(at, axis): (usize, &usize)| axes[..at].contains(axis);
    (!axes.iter().enumerate().any(is_twice)).then_some(axes)
}

/// Indices into an axis; negative ones count from behind.
fn places_of(indices: &Val, size: usize) -> Option<Vec<usize>> {
    if !matches!(indices.ty, Int64 | Int32) {
        return None;
    }
    indices.ints().iter().map(|at| axis_of(i64::try_from(*at).ok()?, size)).collect()
}

fn reshape(attributes: Attributes, x: &Val, to: &[i64]) -> Option<Val> {
    let allow_zero = attributes.int("allowzero") == Some(1);
    let size = |(axis, size): (usize, &i64)| match size {
        0 if !allow_zero => x.shape.get(axis).copied(),
        -1 => Some(usize::MAX),
        _ => usize::try_from(*size).ok(),
    };
    let mut shape: Vec<usize> = to.iter().enumerate().map(size).collect::<Option<_>>()?;
    if shape.len() > 5 || shape.iter().filter(|size| **size == usize::MAX).count() > 1 {
        return None;
    }
    let known = shape.iter().filter(|size| **size != usize::MAX);
    let known = known.copied().try_fold(1usize, usize::checked_mul)?;
    if let Some(open) = shape.iter_mut().find(|size| **size == usize::MAX) {
        *open = x.codes.len().checked_div(known)?;
    }
    x.reshaped(shape)
}

fn transpose(attributes: Attributes, x: &Val) -> Option<Val> {
    let rank = x.shape.len();
    let reversed: Vec<i64> = (0..rank as i64).rev().collect();
    let order = axes_of(attributes.ints("perm").unwrap_or(&reversed), rank)?;
    if order.len() != rank {
        return None;
    }
    let shape: Vec<usize> = order.iter().map(|axis| x.shape[*axis]).collect();
    let source = |index: Vec<usize>| {
        let mut own = vec![0; rank];
        order.iter().zip(index).for_each(|(axis, at)| own[*axis] = at);
        place(&x.shape, &own)
    };
    x.picked(shape.clone(), indices(&shape).map(source).collect::<Vec<_>>())
}

fn concat(attributes: Attributes, inputs: Inputs) -> Option<Val> {
    let parts: Vec<&Val> = inputs.iter().copied().collect::<Option<_>>()?;
    let first = parts[0];
    let axis = axis_of(attributes.int("axis")?, first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[axis] = parts.iter().map(|part| part.shape.get(axis).copied().unwrap_or(0)).sum();
    let fits = |part: &&Val| {
        let sizes = part.shape.iter().zip(&shape).enumerate();
        part.ty == first.ty
            && part.shape.len() == shape.len()
            && sizes.into_iter().all(|(other, (a, b))| other == axis || a == b)
    };
    if !parts.iter().all(fits) {
        return None;
    }
    small_shape(&shape)?;
    let code = |index: Vec<usize>| {
        let mut own = index;
        for part in &parts {
            if own[axis] < part.shape[axis] {
                return part.codes[place(&part.shape, &own)];
            }
            own[axis] -= part.shape[axis];
        }
        unreachable!("an index within the parts")
    };
    Some(Val::new(first.ty, shape.clone(), indices(&shape).map(code).collect()))
}

fn along(x: &Val, axis: usize, places: &[usize]) -> Option<Val> {
    let mut shape = x.shape.clone();
    shape[axis] = places.len();
    let source = |mut index: Vec<usize>| {
        index[axis] = places[index[axis]];
        place(&x.shape, &index)
    };
    x.picked(shape.clone(), indices(&shape).map(source).collect::<Vec<_>>())
}

fn split(attributes: Attributes, x: &Val, sizes: Option<&Val>) -> Option<Vec<Val>> {
    let axis = axis_of(attributes.int("axis").unwrap_or(0), x.shape.len())?;
    let whole = x.shape[axis];
    let sizes: Vec<usize> = match (sizes, attributes.int("num_outputs")) {
        (Some(sizes), None) => {
            sizes.i64s()?.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<_>>()?
        }
        (None, Some(count)) => {
            let count = usize::try_from(count).ok()?;
            whole.is_multiple_of(count).then(|| vec![whole / count; count])?
        }
        _ => return None,
    };
    (sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size)) == Some(whole))
        .then_some(())?;
    let mut start = 0;
    let part = |size: &usize| {
        start += size;
        along(x, axis, &(start - size..start).collect::<Vec<_>>())
    };
    sizes.iter().map(part).collect()
}

fn slice(x: &Val, inputs: Inputs) -> Option<Val> {
    let list = |at: usize| inputs.get(at).copied().flatten().map(|val| val.i64s());
    let (starts, ends) = (list(1)??, list(2)??);
    let axes = match list(3) {
        Some(axes) => axes?,
        None => (0..starts.len() as i64).collect(),
    };
    let steps = match list(4) {
        Some(steps) => steps?,
        None => vec![1; starts.len()],
    };
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return None;
    }
    let axes = axes_of(&axes, x.shape.len())?;
    let mut sliced = x.clone();
    for (at, axis) in axes.iter().enumerate() {
        let size = x.shape[*axis] as i128;
        let step = i128::from(steps[at]);
        if step == 0 {
            return None;
        }
        let from_end = |place: i64| {
            let place = i128::from(place);
            if place < 0 { place + size } else { place }
        };
        let (start, end) = (from_end(starts[at]), from_end(ends[at]));
        let (mut place, end) = if step > 0 {
            (start.clamp(0, size), end.clamp(0, size))
        } else {
            (start.clamp(0, (size - 1).max(0)), end.clamp(-1, (size - 1).max(-1)))
        };
        let mut places = vec![];
        while size > 0 && if step > 0 { place < end } else { place > end } {
            places.push(usize::try_from(place).ok()?);
            place += step;
        }
        sliced = along(&sliced, *axis, &places)?;
    }
    Some(sliced)
}

fn gather_nd(x: &Val, to: &Val) -> Option<Val> {
    let (depth, outer) = to.shape.split_last()?;
    if *depth == 0 || *depth > x.shape.len() {
        return None;
    }
    let all = to.i64s()?;
    let inner = volume(&x.shape[*depth..]);
    let mut sources = vec![];
    for index in all.chunks(*depth) {
        let sizes = index.iter().zip(&x.shape);
        let own: Vec<usize> = sizes.map(|(at, size)| axis_of(*at, *size)).collect::<Option<_>>()?;
        let start = place(&x.shape[..*depth], &own) * inner;
        sources.extend(start..start + inner);
    }
    let shape = [outer, &x.shape[*depth..]].concat();
    small_shape(&shape)?;
    x.picked(shape, sources)
}

fn pad(attributes: Attributes, x: &Val, inputs: Inputs) -> Option<Val> {
    let rank = x.shape.len();
    let pads = inputs.get(1).copied().flatten()?.i64s()?;
    let fill = match inputs.get(2).copied().flatten() {
        Some(fill) if fill.ty == x.ty && fill.codes.len() == 1 => fill.codes[0],
        Some(_) => return None,
        None => 0,
    };
    if pads.len() != 2 * rank || pads.iter().any(|pad| !(0..=8).contains(pad)) || rank == 0 {
        return None;
    }
    let before: Vec<usize> = pads[..rank].iter().map(|pad| *pad as usize).collect();
    let sizes = x.shape.iter().zip(&pads[rank..]).zip(&before);
    let shape: Vec<usize> =
        sizes.map(|((size, end), start)| size + start + *end as usize).collect();
    small_shape(&shape)?;
    let mode = attributes.text("mode").unwrap_or("constant");
    let code = |index: Vec<usize>| {
        let mut own = vec![];
        for (axis, at) in index.iter().enumerate() {
            let (at, size) = (*at as i64 - before[axis] as i64, x.shape[axis] as i64);
            match (mode, (0..size).contains(&at)) {
                (_, true) => own.push(at as usize),
                ("edge", false) if size > 0 => own.push(at.clamp(0, size - 1) as usize),
                ("constant", false) => return Some(fill),
                _ => return None,
            }
        }
        Some(x.codes[place(&x.shape, &own)])
    };
    let codes = indices(&shape).map(code).collect::<Option<_>>()?;
    Some(Val::new(x.ty, shape, codes))
}

fn range(start: &Val, limit: &Val, step: &Val) -> Option<Val> {
    let scalar = |val: &Val| (val.shape.is_empty() && val.ty == start.ty).then_some(val.codes[0]);
    let codes = [scalar(start)?, scalar(limit)?, scalar(step)?];
    let of = |code: u64| Val::new(start.ty, vec![], vec![code]);
    if !matches!(start.ty, Int64 | Int32) {
        return None;
    }
    let [mut at, limit, step] = codes.map(|code| of(code).ints()[0]);
    let mut values = vec![];
    while if step > 0 { at < limit } else { at > limit } {
        if step == 0 || values.len() >= MOST {
            return None;
        }
        values.push(at);
        at += step;
    }
    Some(Val::of_ints(start.ty, vec![values.len()], values))
}

fn one_hot(attributes: Attributes, x: &Val, depth: &Val, values: &Val) -> Option<Val> {
    let depth = depth.i64().filter(|depth| (1..=8).contains(depth))?;
    let rank = x.shape.len() + 1;
    let axis = axis_of(attributes.int("axis").unwrap_or(-1), rank)?;
    if x.ty != Int64 || values.codes.len() != 2 {
        return None;
    }
    let mut shape = x.shape.clone();
    shape.insert(axis, depth as usize);
    small_shape(&shape)?;
    let code = |mut index: Vec<usize>| {
        let at = index.remove(axis) as i64;
        let own = x.codes[place(&x.shape, &index)] as i64;
        let own = if (-depth..0).contains(&own) { own + depth } else { own };
        values.codes[usize::from(own == at)]
    };
    Some(Val::new(values.ty, shape.clone(), indices(&shape).map(code).collect()))
}
