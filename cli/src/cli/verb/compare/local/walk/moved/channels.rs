//! Channels of tensors: each is one of the reference's channels, a number of times.

/// A channel of the conversion: which one of the reference's it is, how many times that, and how
/// far that factor may be off, by its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super::super) struct Channel {
    pub(super) from: usize,
    pub(super) factor: f64,
    pub(super) spread: f64,
}

/// How many times farther than is likely what is measured may be off.
pub(super) const STRAY: f64 = 6.0;

/// Where the elements of channels are, which some axes of a tensor tell apart: each has its first
/// place, and all have the same places behind that.
pub(in super::super::super) struct Places {
    pub(super) firsts: Vec<usize>,
    pub(super) behind: Vec<usize>,
}

impl Places {
    pub(super) fn of(shape: &[usize], axes: &[usize]) -> Places {
        let (mut firsts, mut behind) = (vec![0], vec![0]);
        for (axis, size) in shape.iter().enumerate() {
            let width: usize = shape.iter().skip(axis + 1).product();
            let is_told = axes.contains(&axis);
            let places = if is_told { &mut firsts } else { &mut behind };
            let along =
                |first: &usize| (0..*size).map(|at| first + at * width).collect::<Vec<usize>>();
            *places = places.iter().flat_map(along).collect();
        }
        Places { firsts, behind }
    }

    /// The elements of a channel.
    pub(super) fn channel<'a>(
        &'a self,
        values: &'a [f64],
        channel: usize,
    ) -> impl Iterator<Item = f64> + 'a {
        let first = self.firsts.get(channel).copied();
        let at = move |behind: &usize| values.get(first? + behind).copied();
        self.behind.iter().filter_map(at)
    }

    /// The elements of the reference where its channels were moved, or where that is made up for;
    /// `None` if these are other channels.
    pub(super) fn moved(
        &self,
        values: &[f64],
        channels: &[Channel],
        is_made_up_for: bool,
    ) -> Option<Vec<f64>> {
        if channels.len() != self.firsts.len() {
            return None;
        }
        let mut moved = vec![0.0; values.len()];
        for (first, Channel { from, factor, .. }) in self.firsts.iter().zip(channels) {
            let factor = if is_made_up_for { 1.0 / factor } else { *factor };
            let from = self.firsts.get(*from)?;
            for behind in &self.behind {
                *moved.get_mut(first + behind)? = values.get(from + behind)? * factor;
            }
        }
        Some(moved)
    }
}

/// By how many times one channel's elements are another one's: by least squares, with how far that
/// may be off, by its size, where each element is off by a part of what it may be. `None` if there
/// is nothing that tells it.
pub(super) fn ratio(
    was: impl Iterator<Item = f64>,
    is: impl Iterator<Item = f64>,
    off: impl Iterator<Item = f64>,
) -> Option<(f64, f64)> {
    let (mut power, mut product, mut noise, mut count) = (0.0, 0.0, 0.0, 0.0);
    for ((x, y), off) in was.zip(is).zip(off) {
        (power, product) = (power + x * x, product + x * y);
        (noise, count) = (noise + off * off, count + 1.0);
    }
    let ratio = product / power;
    // Roundings are spread evenly about what they round.
    let spread = (noise / count / 12.0 / power).sqrt() / ratio.abs();
    (ratio.is_finite() && ratio != 0.0 && spread.is_finite()).then_some((ratio, spread))
}

/// How many times what they were the channels of a weight are, each its own or another one, where
/// each element may be `off` by so much.
pub(super) fn between(
    was: &[f64],
    is: &[f64],
    off: &[f64],
    places: &Places,
) -> Option<Vec<Channel>> {
    let of = |channel: usize, from: usize| {
        let fits = |factor: f64| {
            let both = places.channel(was, from).zip(places.channel(is, channel));
            let all = both.zip(places.channel(off, channel));
            all.into_iter().all(|((x, y), off)| (y - factor * x).abs() <= off)
        };
        let found = ratio(
            places.channel(was, from),
            places.channel(is, channel),
            places.channel(off, channel),
        );
        match found {
            Some((factor, spread)) if fits(factor) => Some(Channel { from, factor, spread }),
            // Of what is rounded to zeros nothing tells how many times they are.
            _ => [0.0, 1.0].into_iter().any(fits).then_some(Channel { from, ..UNKNOWN }),
        }
    };
    let count = places.firsts.len();
    let own: Option<Vec<Channel>> = (0..count).map(|channel| of(channel, channel)).collect();
    if own.is_some() || places.behind.len() < 2 {
        return own;
    }
    let mut left: Vec<usize> = (0..count).collect();
    let other = |channel: usize| {
        let mut found = left.iter().enumerate();
        let (at, found) = found.find_map(|(at, from)| Some((at, of(channel, *from)?)))?;
        left.remove(at);
        Some(found)
    };
    (0..count).map(other).collect()
}

/// A channel that nothing is known of.
const UNKNOWN: Channel = Channel { from: 0, factor: 1.0, spread: f64::INFINITY };

/// Channels whose factors are all 1 as far as that can be told, and but for so much, have that.
pub(super) fn settled(channels: Vec<Channel>, least: f64) -> Vec<Channel> {
    let is_one = |channel: &Channel| (channel.factor - 1.0).abs() <= least + STRAY * channel.spread;
    if !channels.iter().all(is_one) {
        return channels;
    }
    channels.into_iter().map(|channel| Channel { factor: 1.0, ..channel }).collect()
}

/// The axes by which a value's channels may be told: any of those that are longer than 1.
pub(super) fn axes_of(shape: &[usize]) -> Vec<Vec<usize>> {
    const MOST: usize = 6;
    let single = (0..shape.len()).filter(|axis| shape.get(*axis).is_some_and(|size| *size > 1));
    let mut all: Vec<Vec<usize>> = vec![vec![]];
    for axis in single.take(MOST) {
        let more: Vec<Vec<usize>> =
            all.iter().map(|axes| axes.iter().copied().chain([axis]).collect()).collect();
        all.extend(more);
    }
    all
}

/// How many channels these axes tell apart.
pub(super) fn channels_of(shape: &[usize], axes: &[usize]) -> usize {
    axes.iter().filter_map(|axis| shape.get(*axis)).product()
}

/// The axes by which a weight's channels may be told: none, or one.
pub(super) fn weight_axes(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    axes_of(shape).into_iter().filter(|axes| axes.len() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAS: [f64; 6] = [1.0, 2.0, 3.0, -4.0, 5.0, 6.0];

    fn found(is: &[f64], axes: &[usize]) -> Option<Vec<(usize, f64)>> {
        let found = between(&WAS, is, &[1e-9; 6], &Places::of(&[3, 2], axes))?;
        let told = |channel: Channel| (channel.from, (1e6 * channel.factor).round() / 1e6);
        Some(found.into_iter().map(told).collect())
    }

    #[test]
    fn channels_are_found_by_their_elements() {
        let scaled = [2.0, 4.0, 3.0, -4.0, 1.25, 1.5];
        assert_eq!(found(&scaled, &[0]), Some(vec![(0, 2.0), (1, 1.0), (2, 0.25)]));
        assert_eq!(found(&scaled, &[1]), None);
        let turned = [3.0, -4.0, 5.0, 6.0, 1.0, 2.0];
        assert_eq!(found(&turned, &[0]), Some(vec![(1, 1.0), (2, 1.0), (0, 1.0)]));
        assert_eq!(found(&WAS.map(|x| 3.0 * x), &[]), Some(vec![(0, 3.0)]));
        // One of which a single element has changed.
        assert_eq!(found(&[2.0, 4.0, 3.0, -4.0, 5.0, 6.5], &[0]), None);
    }

    #[test]
    fn what_is_moved_is_made_up_for() {
        let channels = [(1, 2.0), (2, 4.0), (0, 0.5)];
        let channels = channels.map(|(from, factor)| Channel { from, factor, spread: 0.0 });
        let places = Places::of(&[3, 2], &[0]);
        let moved = places.moved(&WAS, &channels, false);
        assert_eq!(moved, Some(vec![6.0, -8.0, 20.0, 24.0, 0.5, 1.0]));
        let made_up_for = places.moved(&WAS, &channels, true);
        assert_eq!(made_up_for, Some(vec![1.5, -2.0, 1.25, 1.5, 2.0, 4.0]));
        assert_eq!(places.moved(&WAS, &channels[..2], false), None);
    }
}
