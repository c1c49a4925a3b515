//! Which elements of an axis each element of a resized one is made of, and by which weights.

use tract_onnx::tract_core::internal::*;

use crate::ops::host::saved::{by_debug, fields};

/// `coordinate_transformation_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    TfHalfPixelForNn,
    AlignCorners,
    Asymmetric,
    TfCropAndResize,
}

impl Coordinates {
    pub(super) const ALL: [(&'static str, Coordinates); 7] = [
        ("half_pixel", Coordinates::HalfPixel),
        ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
        ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
        ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn),
        ("align_corners", Coordinates::AlignCorners),
        ("asymmetric", Coordinates::Asymmetric),
        ("tf_crop_and_resize", Coordinates::TfCropAndResize),
    ];
}

/// `mode` and `nearest_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Floor,
    Ceil,
    /// That of opset 10: up where elements are left out.
    FloorOrCeil,
    RoundPreferFloor,
    RoundPreferCeil,
    Linear,
    Cubic,
}

impl Mode {
    pub(super) const NEAREST: [(&'static str, Mode); 5] = [
        ("floor", Mode::Floor),
        ("ceil", Mode::Ceil),
        ("floor_or_ceil", Mode::FloorOrCeil),
        ("round_prefer_floor", Mode::RoundPreferFloor),
        ("round_prefer_ceil", Mode::RoundPreferCeil),
    ];
    pub(super) const BETWEEN: [(&'static str, Mode); 2] =
        [("linear", Mode::Linear), ("cubic", Mode::Cubic)];

    pub(super) fn is_nearest(self) -> bool {
        !matches!(self, Mode::Linear | Mode::Cubic)
    }

    /// How far elements reach to either side.
    fn support(self) -> usize {
        if self == Mode::Cubic { 2 } else { 1 }
    }

    /// The place of the element that is taken for a coordinate of an axis.
    fn nearest(self, x: f64, scale: f64) -> f64 {
        match self {
            Mode::Ceil => x.ceil(),
            Mode::FloorOrCeil if scale < 1.0 => x.ceil(),
            Mode::Floor | Mode::FloorOrCeil => x.floor(),
            Mode::RoundPreferCeil => (x + 0.5).floor(),
            _ => (x - 0.5).ceil(),
        }
    }
}

/// An axis that is resized.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResizeAxis {
    pub(super) at: usize,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) scale: f64,
    /// Where the region of interest begins and ends, from 0 to 1.
    pub(super) region: (f64, f64),
}

/// How places between elements are looked up, and what is made of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rule {
    pub(super) coordinates: Coordinates,
    pub(super) mode: Mode,
    pub(super) cubic_coeff_a: f32,
    pub(super) exclude_outside: bool,
    pub(super) antialias: bool,
}

/// For each element of a resized axis so many places, and a weight for each.
#[derive(Debug)]
pub(super) struct ResizePlan {
    pub(super) taps: usize,
    pub(super) places: Vec<usize>,
    pub(super) weights: Vec<f64>,
    /// Whether an element is outside of the input, by `tf_crop_and_resize`.
    pub(super) outside: Vec<bool>,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sizes and places of axes, within them"
)]
impl Rule {
    /// The coordinate that a place after resizing had before. With `is_single` each step is rounded
    /// to FLOAT, as ONNX Runtime and tract have it, which decides where two elements are as near.
    fn coordinate(&self, axis: &ResizeAxis, place: usize, is_single: bool) -> f64 {
        let round = |x: f64| if is_single { f64::from(x as f32) } else { x };
        let (place, before) = (place as f64, axis.before as f64);
        let width = round(axis.scale * before);
        let pixel = || round((place + 0.5) / axis.scale);
        match self.coordinates {
            Coordinates::PytorchHalfPixel if axis.after == 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => round(pixel() - 0.5),
            Coordinates::TfHalfPixelForNn => pixel(),
            Coordinates::HalfPixelSymmetric => {
                let adjustment = round(axis.after as f64 / width);
                let offset = round(before / 2.0 * round(1.0 - adjustment));
                round(offset + round(pixel() - 0.5))
            }
            Coordinates::AlignCorners if width == 1.0 => 0.0,
            Coordinates::AlignCorners => round(round(place * (before - 1.0)) / round(width - 1.0)),
            Coordinates::Asymmetric => round(place / axis.scale),
            Coordinates::TfCropAndResize => {
                let (start, end) = axis.region;
                let span = round((before - 1.0) * round(end - start));
                let offset = match width {
                    1.0 => span / 2.0,
                    _ => round(round(place * span) / round(width - 1.0)),
                };
                round(offset + round(start * (before - 1.0)))
            }
        }
    }

    /// How many elements one is made of.
    fn taps(&self, scale: f64) -> usize {
        let support = self.mode.support();
        if self.mode.is_nearest() {
            1
        } else if !self.antialias || scale >= 1.0 {
            2 * support
        } else {
            2 * (support as f64 / scale).ceil() as usize
        }
    }

    /// The weight of an element so far away.
    fn weight(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), f64::from(self.cubic_coeff_a));
        match self.mode {
            Mode::Cubic if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Mode::Cubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Mode::Cubic => 0.0,
            _ => (1.0 - x).max(0.0),
        }
    }

    pub(super) fn plan(&self, axis: &ResizeAxis, is_single: bool) -> TractResult<ResizePlan> {
        let taps = self.taps(axis.scale);
        let (mut places, mut weights, mut outside) = (vec![], vec![], vec![]);
        let count = taps.checked_mul(axis.after).context("too many elements")?;
        places.try_reserve_exact(count)?;
        weights.try_reserve_exact(count)?;
        outside.try_reserve_exact(axis.after)?;
        let last = axis.before.saturating_sub(1) as f64;
        let within = |place: f64| place.clamp(0.0, last) as usize;
        let stretch = if self.antialias { axis.scale.min(1.0) } else { 1.0 };
        for place in 0..axis.after {
            let x = self.coordinate(axis, place, is_single);
            let is_cropped = self.coordinates == Coordinates::TfCropAndResize;
            outside.push(is_cropped && !(0.0..=last).contains(&x));
            if self.mode.is_nearest() {
                places.push(within(self.mode.nearest(x, axis.scale)));
                weights.push(1.0);
                continue;
            }
            // An element in its place counts as the right one of two.
            let first = x.ceil() - (taps / 2) as f64;
            let from = weights.len();
            for tap in 0..taps {
                let tap = first + tap as f64;
                let is_dropped = self.exclude_outside && !(0.0..=last).contains(&tap);
                places.push(within(tap));
                weights.push(if is_dropped { 0.0 } else { self.weight((tap - x) * stretch) });
            }
            let own = weights.get_mut(from..).unwrap_or_default();
            let sum: f64 = own.iter().sum();
            if sum != 0.0 && (stretch != 1.0 || self.exclude_outside) {
                own.iter_mut().for_each(|weight| *weight /= sum);
            }
        }
        Ok(ResizePlan { taps, places, weights, outside })
    }
}

by_debug!(Coordinates, Coordinates::ALL.into_iter().map(|(_, member)| member));
by_debug!(Mode, Mode::NEAREST.into_iter().chain(Mode::BETWEEN).map(|(_, member)| member));
fields!(Rule { coordinates, mode, cubic_coeff_a, exclude_outside, antialias });
