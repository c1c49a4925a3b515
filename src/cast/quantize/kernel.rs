//! The loops: a kernel makes of a slice of elements, and of the scales and zero points of the
//! tensor that it is part of, a slice of results. What cannot be done in one loop is done a tile at
//! a time, by the casts' own kernels.

#![forbid(unsafe_code)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::layout::ScaleLayout;
use super::operator::{Dequantize, Quantize, Quantizer};
use super::parameters::Parameters;
use super::step::{
    AddZero, Divide, ElementStep, Integer, MachineWord, Multiply, Narrowed, Saturate,
};
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::places::{TargetBytes, places};
use crate::cast::kernel::round::Narrow;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;

/// Elements of a tile, whose buffers stay in the first-level cache.
const TILE: usize = 1024;

/// Results of so few bytes do not repay waking the wide registers.
const ONE_VECTOR: usize = 16;

/// A quantiser's loops, chosen.
#[derive(Clone)]
pub(crate) struct ScaleKernel {
    x_bytes: usize,
    y_bytes: usize,
    /// Makes FLOATs of x, where no loop reads it as it is.
    read: Option<Arc<dyn Kernel>>,
    stages: Arc<[Stage]>,
}

/// A part of the computation; all but the last make FLOATs.
enum Stage {
    /// With the parameters.
    Scale(Box<dyn Loop>),
    /// FLOAT to a type of 16 bits and back.
    Round([Arc<dyn Kernel>; 2]),
    /// Without them.
    Cast(Arc<dyn Kernel>),
}

/// The scales and zero points of elements.
#[derive(Clone, Copy)]
pub(crate) struct Scales<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) layout: ScaleLayout,
    /// The place of the first element among those that the layout is of.
    pub(crate) first: usize,
}

/// A loop over elements and their parameters. It writes every byte of its target.
trait Loop: Send + Sync {
    fn run(&self, level: Level, scales: Scales, src: &[u8], target: TargetBytes);
}

impl ScaleKernel {
    /// The kernel of a quantiser with or without zero points.
    pub(crate) fn new(quantizer: Quantizer, has_zero_points: bool) -> ScaleKernel {
        let (read, stages) = match quantizer {
            Quantizer::Quantize(op) => quantize(op, has_zero_points),
            Quantizer::Dequantize(op) => dequantize(op),
        };
        let bytes = |ty: ElementType| ty.carrier_bytes().unwrap_or(1);
        ScaleKernel {
            x_bytes: bytes(quantizer.x()),
            y_bytes: bytes(quantizer.y()),
            read,
            stages: stages.into(),
        }
    }

    /// Converts `src` into `dst`, which has places for exactly as many elements, and writes every
    /// byte of it.
    pub(crate) fn run(
        &self,
        level: Level,
        scales: Scales,
        src: &[u8],
        dst: &mut [MaybeUninit<u8>],
    ) {
        let level = if dst.len() <= ONE_VECTOR { Level::BASELINE } else { level };
        if let (None, [Stage::Scale(only)]) = (&self.read, &*self.stages) {
            return only.run(level, scales, src, TargetBytes::new(dst));
        }
        self.run_tiles(level, scales, src, dst);
    }

    /// Apart from its caller, so that one loop does not pay for the tiles.
    #[inline(never)]
    fn run_tiles(&self, level: Level, scales: Scales, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        let (mut one, mut other) = ([0f32; TILE], [0f32; TILE]);
        let tiles = src.chunks(TILE * self.x_bytes).zip(dst.chunks_mut(TILE * self.y_bytes));
        for (tile, (src, dst)) in tiles.enumerate() {
            let elements = src.len() / self.x_bytes;
            let scales = Scales { first: scales.first + tile * TILE, ..scales };
            let (mut from, mut to) = (&mut one[..elements], &mut other[..elements]);
            if let Some(read) = &self.read {
                read.overwrite(level, src, bytemuck::cast_slice_mut(from));
            }
            let last = self.stages.len() - 1;
            for (index, stage) in self.stages.iter().enumerate() {
                let src: &[u8] = match (index, &self.read) {
                    (0, None) => src,
                    _ => bytemuck::cast_slice(from),
                };
                let target = if index == last {
                    TargetBytes::new(&mut *dst)
                } else {
                    TargetBytes::over(bytemuck::cast_slice_mut(to))
                };
                match stage {
                    Stage::Scale(scale) => scale.run(level, scales, src, target),
                    Stage::Round([there, back]) => {
                        let mut half = [0u16; TILE];
                        let half: &mut [u8] = bytemuck::cast_slice_mut(&mut half[..elements]);
                        there.overwrite(level, src, half);
                        back.write(level, half, target);
                    }
                    Stage::Cast(cast) => cast.write(level, src, target),
                }
                (from, to) = (to, from);
            }
        }
    }
}

type Loops = (Option<Arc<dyn Kernel>>, Vec<Stage>);

/// x is made a FLOAT, divided, rounded to the precision, moved by the zero point and made a y.
fn quantize(op: Quantize, has_zero_points: bool) -> Loops {
    let read = read(op.x);
    let range = op.integer_range();
    let exact = op.precision == ElementType::Float;
    if let (Some(range), true) = (range, exact) {
        return (read, vec![saturate::<true>(op.y, range)]);
    }
    if let (Family::Float(format), true) = (op.y.family(), exact) {
        let moves = has_zero_points && op.adds_zero_point();
        return (read, vec![narrowed(Narrow::new(format, op.rules()), moves)]);
    }
    let mut stages = vec![scale(Divide)];
    if !exact {
        let rules = Rules::default();
        let there = select(ElementType::Float, op.precision, rules);
        stages.push(Stage::Round([there, select(op.precision, ElementType::Float, rules)]));
    }
    match range {
        Some(range) => stages.push(saturate::<false>(op.y, range)),
        None => {
            if has_zero_points && op.adds_zero_point() {
                stages.push(scale(AddZero));
            }
            stages.push(Stage::Cast(select(ElementType::Float, op.y, op.rules())));
        }
    }
    (read, stages)
}

fn dequantize(op: Dequantize) -> Loops {
    let (read, multiply) = match op.x {
        ElementType::Uint8 => (None, multiply::<u8, 0>()),
        ElementType::Int8 => (None, multiply::<i8, 0>()),
        ElementType::Uint16 => (None, multiply::<u16, 0>()),
        ElementType::Int16 => (None, multiply::<i16, 0>()),
        ElementType::Int32 => (None, multiply::<i32, 0>()),
        ElementType::Uint4 => (None, multiply::<u8, 4>()),
        ElementType::Int4 => (None, multiply::<i8, 4>()),
        ElementType::Uint2 => (None, multiply::<u8, 6>()),
        ElementType::Int2 => (None, multiply::<i8, 6>()),
        float => (read(float), multiply::<f32, 0>()),
    };
    let mut stages = vec![multiply];
    if op.y != ElementType::Float {
        stages.push(Stage::Cast(select(ElementType::Float, op.y, Rules::default())));
    }
    (read, stages)
}

/// What makes FLOATs of a type that is another.
fn read(ty: ElementType) -> Option<Arc<dyn Kernel>> {
    (ty != ElementType::Float).then(|| select(ty, ElementType::Float, Rules::default()))
}

fn multiply<X: MachineWord + 'static, const UNUSED: u32>() -> Stage {
    scale(Multiply::<X, UNUSED>(PhantomData))
}

fn saturate<const DIVIDES: bool>(y: ElementType, range: (i32, i32)) -> Stage {
    fn to<Y: Integer + 'static, const DIVIDES: bool>(range: (i32, i32)) -> Stage {
        scale(Saturate::<Y, DIVIDES>::new(range))
    }
    match y.carrier_bytes() {
        Some(2) => to::<u16, DIVIDES>(range),
        _ => to::<u8, DIVIDES>(range),
    }
}

fn narrowed(narrow: Narrow, moves: bool) -> Stage {
    match (narrow.saturates(), narrow.signs_zero(), moves) {
        (true, true, true) => scale(Narrowed::<true, true, true>(narrow)),
        (true, true, false) => scale(Narrowed::<true, true, false>(narrow)),
        (true, false, _) => scale(Narrowed::<true, false, false>(narrow)),
        (false, true, _) => scale(Narrowed::<false, true, false>(narrow)),
        (false, false, _) => scale(Narrowed::<false, false, false>(narrow)),
    }
}

fn scale(step: impl ElementStep) -> Stage {
    Stage::Scale(Box::new(Steps(step)))
}

/// One step, element by element.
struct Steps<S>(S);

impl<S: ElementStep> Loop for Steps<S> {
    fn run(&self, level: Level, scales: Scales, src: &[u8], target: TargetBytes) {
        level.run_loop(
            &(self.0, scales),
            src,
            target.into_bytes(),
            #[inline(always)]
            |(step, scales), src, dst| {
                steps(*step, *scales, bytemuck::cast_slice(src), places(dst));
            },
        );
    }
}

/// The elements in runs: those that share their parameters, or have one after the other.
#[inline(always)]
fn steps<S: ElementStep>(
    step: S,
    Scales { parameters, layout, first }: Scales,
    src: &[S::In],
    dst: &mut [MaybeUninit<S::Out>],
) {
    let scales = &parameters.scales[..];
    if src.is_empty() {
        return;
    }
    match layout {
        ScaleLayout::Tensor => share(step, scales[0], parameters.zero(0), src, dst),
        ScaleLayout::Axis { inner: 1, .. } => {
            // A whole number of times the axis.
            let (mut at, mut index) = (0, first % scales.len());
            while at < src.len() {
                let run = (scales.len() - index).min(src.len() - at);
                let own = index..index + run;
                let (src, dst) = (&src[at..at + run], &mut dst[at..at + run]);
                each(step, &scales[own.clone()], parameters.zeros(own), src, dst);
                (at, index) = (at + run, 0);
            }
        }
        ScaleLayout::Axis { length, inner } => {
            let (mut at, mut index, mut done) = (0, first / inner % length, first % inner);
            while at < src.len() {
                let run = (inner - done).min(src.len() - at);
                let (src, dst) = (&src[at..at + run], &mut dst[at..at + run]);
                share(step, scales[index], parameters.zero(index), src, dst);
                (at, done) = (at + run, 0);
                index = if index + 1 == length { 0 } else { index + 1 };
            }
        }
        ScaleLayout::Blocks { length, inner: 1, block } => {
            let (mut at, mut index) = (0, first % length);
            let mut scale = first / length * length.div_ceil(block) + index / block;
            while at < src.len() {
                let run = (block - index % block).min(length - index).min(src.len() - at);
                let (src, dst) = (&src[at..at + run], &mut dst[at..at + run]);
                share(step, scales[scale], parameters.zero(scale), src, dst);
                (at, index, scale) = (at + run, index + run, scale + 1);
                if index == length {
                    index = 0;
                }
            }
        }
        ScaleLayout::Blocks { length, inner, block } => {
            let (mut at, mut row, mut done) = (0, first / inner, first % inner);
            while at < src.len() {
                let run = (inner - done).min(src.len() - at);
                let blocks = row / length * length.div_ceil(block) + row % length / block;
                let own = blocks * inner + done..blocks * inner + done + run;
                let (src, dst) = (&src[at..at + run], &mut dst[at..at + run]);
                each(step, &scales[own.clone()], parameters.zeros(own), src, dst);
                (at, row, done) = (at + run, row + 1, 0);
            }
        }
    }
}

/// Elements with the same parameters.
#[inline(always)]
fn share<S: ElementStep>(
    step: S,
    scale: f32,
    zero: f32,
    src: &[S::In],
    dst: &mut [MaybeUninit<S::Out>],
) {
    for (place, x) in dst.iter_mut().zip(src) {
        place.write(step.apply(*x, scale, zero));
    }
}

/// Elements with scales of their own, and zero points, or one for all.
#[inline(always)]
fn each<S: ElementStep>(
    step: S,
    scales: &[f32],
    zeros: &[f32],
    src: &[S::In],
    dst: &mut [MaybeUninit<S::Out>],
) {
    let elements = dst.iter_mut().zip(src).zip(scales);
    if let [zero] = zeros {
        for ((place, x), scale) in elements {
            place.write(step.apply(*x, *scale, *zero));
        }
        return;
    }
    for (((place, x), scale), zero) in elements.zip(zeros) {
        place.write(step.apply(*x, *scale, *zero));
    }
}
