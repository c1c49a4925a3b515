//! The angle between two vectors.

/// What the angle between two vectors is made of. Squares of very large and very small numbers are
/// kept from overflowing, and from vanishing, by scales that are powers of two.
#[derive(Default)]
pub(crate) struct Angle {
    dot: f64,
    /// The squares of the lengths.
    squares: (f64, f64),
    /// The power of two above the largest magnitude, as far as there is one; 0 as long as all are
    /// zero.
    scales: (f64, f64),
}

impl Angle {
    pub(crate) fn add(&mut self, a: f64, b: f64) {
        let (of_a, of_b) = (grown(self.scales.0, a), grown(self.scales.1, b));
        self.dot *= of_a.1 * of_b.1;
        self.squares.0 *= of_a.1 * of_a.1;
        self.squares.1 *= of_b.1 * of_b.1;
        self.scales = (of_a.0, of_b.0);
        let (a, b) = (scaled(a, of_a.0), scaled(b, of_b.0));
        self.dot += a * b;
        self.squares = (self.squares.0 + a * a, self.squares.1 + b * b);
    }

    /// The cosine; `None` if one of the vectors is zero, for it has no direction. Two zero vectors
    /// count as the same.
    pub(crate) fn cosine(&self) -> Option<f64> {
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
