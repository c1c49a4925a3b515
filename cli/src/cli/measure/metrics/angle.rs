//! The angle between two vectors.

/// What the angle between two vectors is made of. Squares of very large and very small numbers are
/// kept from overflowing, and from vanishing, by scales that are powers of two.
#[derive(Default, Clone, Copy)]
pub(super) struct Angle {
    dot: f64,
    /// The squares of the lengths.
    squares: (f64, f64),
    /// The power of two above the largest magnitude, as far as there is one; 0 as long as all are
    /// zero.
    scales: (f64, f64),
}

impl Angle {
    pub(super) fn add(&mut self, a: f64, b: f64) {
        let (of_a, of_b) = (grown(self.scales.0, a), grown(self.scales.1, b));
        self.dot *= of_a.1 * of_b.1;
        self.squares.0 *= of_a.1 * of_a.1;
        self.squares.1 *= of_b.1 * of_b.1;
        self.scales = (of_a.0, of_b.0);
        let (a, b) = (scaled(a, of_a.0), scaled(b, of_b.0));
        self.dot += a * b;
        self.squares = (self.squares.0 + a * a, self.squares.1 + b * b);
    }

    /// Adds many, given the largest magnitude of either side, with the same sums as if each were
    /// added alone.
    #[inline(always)]
    pub(super) fn add_many(&mut self, a: &[f64], b: &[f64], largest: (f64, f64)) {
        let Angle { mut dot, mut squares, scales } = *self;
        if largest.0 > scales.0 || largest.1 > scales.1 {
            return a.iter().zip(b).for_each(|(a, b)| self.add(*a, *b));
        }
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (scaled(*a, scales.0), scaled(*b, scales.1));
            dot += a * b;
            squares = (squares.0 + a * a, squares.1 + b * b);
        }
        *self = Angle { dot, squares, scales };
    }

    /// The cosine; `None` if one of the vectors is zero, for it has no direction. Two zero vectors
    /// count as the same.
    pub(super) fn cosine(&self) -> Option<f64> {
        let norm = (self.squares.0 * self.squares.1).sqrt();
        match self.squares {
            (0.0, 0.0) => Some(1.0),
            _ if norm > 0.0 => Some((self.dot / norm).clamp(-1.0, 1.0)),
            _ => None,
        }
    }
}

/// The scale after a further number, and the factor that brings sums of the old scale to it.
fn grown(scale: f64, x: f64) -> (f64, f64) {
    let magnitude = x.abs();
    if magnitude <= scale {
        return (scale, 1.0);
    }
    // The exponent field alone; subnormal numbers share the smallest normal one.
    let power = f64::from_bits(magnitude.to_bits() & f64::INFINITY.to_bits());
    let double = power.max(f64::MIN_POSITIVE) * 2.0;
    let new = if double.is_finite() { double } else { power };
    (new, if scale == 0.0 { 0.0 } else { scale / new })
}

fn scaled(x: f64, scale: f64) -> f64 {
    if scale == 0.0 { 0.0 } else { x / scale }
}
