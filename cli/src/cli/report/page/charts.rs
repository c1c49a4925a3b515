//! The charts of the page, as SVG.
//!
//! The colours here are only keys: the page's style sheet replaces each, by one for light and one
//! for dark.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::svg::{escaped, named};
use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::profile::{Profile, ProfilePoint};
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::reach::ReportedReach;

/// The size in pixels. A phone shows a chart about a third as large, and its labels must still be
/// legible.
const SIZE: (u32, u32) = (400, 200);
/// That of a chart of the whole graph.
pub(super) const WIDE: (u32, u32) = (860, 240);
/// The powers of ten between which errors are drawn.
pub(super) const EXACT: f64 = -9.0;
pub(super) const NO_NUMBER: f64 = 3.0;
/// Text and axes.
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
/// Values that the target holds.
pub(super) const KEPT: RGBColor = RGBColor(3, 3, 3);
/// Values beyond what it holds.
const BEYOND: RGBColor = RGBColor(4, 4, 4);
/// Values that are too small for it.
const FLUSHED: RGBColor = RGBColor(5, 5, 5);
/// Subnormal values, which it holds with fewer digits.
const SUBNORMAL: RGBColor = RGBColor(6, 6, 6);
/// The line through errors.
pub(super) const LINE: RGBColor = RGBColor(8, 8, 8);
/// The target's range.
pub(super) const RANGE: RGBColor = RGBColor(7, 7, 7);

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub(super) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How many values have each exponent, and which of them the target holds. `None` if there is
/// nothing to show.
pub(crate) fn exponents(source: &SourceRange, target: Option<&ReportedReach>) -> Option<String> {
    let bars: Vec<Bar> = source
        .log2
        .iter()
        .map(|(exponent, count)| Bar {
            place: *exponent,
            count: *count,
            colour: colour(*exponent, target),
            title: format!("{count} of 2^{exponent} up to 2^{}", exponent.saturating_add(1)),
        })
        .collect();
    let reach = target.map(|target| {
        let smallest = target.min_positive.unwrap_or(Num(1.0));
        (smallest.0.log2(), target.max.0.log2())
    });
    let name = "How many values have which power of two, and which of them the target holds";
    draw(&bars, reach, "power of two of the values", name)
}

/// How many values have a relative error of each power of ten.
pub(crate) fn errors(tensor: &ComparedTensor) -> Option<String> {
    let bars: Vec<Bar> = tensor
        .errors_log10
        .iter()
        .map(|(decade, count)| {
            let is_within =
                tensor.tolerance.rtol.is_some_and(|rtol| 10f64.powi(decade + 1) <= rtol);
            Bar {
                place: *decade,
                count: *count,
                colour: if is_within { KEPT } else { BEYOND },
                title: format!("{count} of 1e{decade} up to 1e{}", decade.saturating_add(1)),
            }
        })
        .collect();
    let name = "How many values have a relative error of which power of ten";
    draw(&bars, None, "power of ten of the relative errors", name)
}

/// The error of each tensor against its depth in the graph; casts are marked. `None` if there are
/// too few tensors.
pub(crate) fn error_profile(profile: &Profile) -> Option<String> {
    let mut worst: BTreeMap<(usize, bool), (f64, &ProfilePoint)> = BTreeMap::new();
    for point in &profile.points {
        let found = (power(point.error), point);
        let place = worst.entry((point.depth, point.is_cast())).or_insert(found);
        if place.0 < found.0 {
            *place = found;
        }
    }
    if worst.len() < 3 {
        return None;
    }
    let centre = profile.around.iter().find(|node| node.is_centre).map(|node| node.depth);
    let titles = worst.values().map(|(_, point)| {
        let error = match point.error {
            Num(error) if error.is_finite() => format!("relative error {}", Num(error)),
            _ => "NaN or infinite on one side".into(),
        };
        format!("{}, which {} {} makes: {error}", point.tensor, point.op, point.node)
    });
    let name = "The largest relative error of the tensors at each depth of the graph";
    drawn((WIDE, name), ("<circle ", titles.collect()), |area| plot_profile(area, &worst, centre))
}

/// How high an error stands: what is exact at the bottom, what is no number at the top.
pub(super) fn power(Num(error): Num) -> f64 {
    if error.is_finite() { error.log10().clamp(EXACT, NO_NUMBER) } else { NO_NUMBER }
}

/// A chart of a size with a name for those who do not see it, whose last elements of a kind have
/// titles; `None` if it cannot be drawn.
pub(super) fn drawn(
    (size, name): ((u32, u32), &str),
    (element, titles): (&str, Vec<String>),
    plot: impl FnOnce(&Area) -> Result<()>,
) -> Option<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    plot(&area).ok()?;
    area.present().ok()?;
    drop(area);
    Some(named(&with_titles(&svg, element, &titles), name))
}

/// Axes that end there, with as many labels, a width for those of the second, and a grid above a
/// band.
struct ChartFrame<'a> {
    x: Range<f64>,
    y: Range<f64>,
    labels: (usize, usize),
    width: u32,
    /// What the first axis is about.
    places: &'a str,
    band: Option<[(f64, f64); 2]>,
}

impl ChartFrame<'_> {
    fn chart<'a, 'b>(
        self,
        area: &'a Area<'b>,
        label: &dyn Fn(&f64) -> String,
    ) -> Result<Chart<'a, 'b>> {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(14)
            .x_label_area_size(38)
            .y_label_area_size(self.width)
            .build_cartesian_2d(self.x, self.y)?;
        chart.draw_series(self.band.map(|band| Rectangle::new(band, RANGE.filled())))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", 13, &INK))
            .axis_desc_style(("sans-serif", 13, &INK))
            .x_desc(self.places)
            .x_labels(self.labels.0)
            .y_labels(self.labels.1)
            .x_label_formatter(&|place| format!("{place:.0}"))
            .y_label_formatter(label)
            .draw()?;
        Ok(chart)
    }
}

/// A chart of errors by powers of ten, along places from 0 to an end; what is no number has a label
/// of its own.
pub(super) fn powers<'a, 'b>(
    area: &'a Area<'b>,
    end: f64,
    places: &str,
    no_number: &str,
) -> Result<Chart<'a, 'b>> {
    let y = EXACT - 0.5..NO_NUMBER + 0.5;
    let frame = ChartFrame { x: -1.0..end, y, labels: (10, 9), width: 56, places, band: None };
    frame.chart(area, &|power| match *power {
        power if power <= EXACT => "exact".into(),
        power if power >= NO_NUMBER - 0.5 => no_number.into(),
        power => format!("1e{power:.0}"),
    })
}

/// Draws the place where a conversion breaks.
pub(super) fn break_mark<'a, 'b>(
    area: &Area<'b>,
    chart: &mut Chart<'a, 'b>,
    place: usize,
) -> Result<()> {
    let place = place as f64;
    let label = ("sans-serif", 13, &INK).into_text_style(area);
    let ends = [(place, EXACT - 0.5), (place, NO_NUMBER + 0.5)];
    chart.draw_series(LineSeries::new(ends, BEYOND.stroke_width(1)))?;
    chart.draw_series([Text::new(" it breaks here", (place, EXACT + 0.9), label)])?;
    Ok(())
}

fn plot_profile(
    area: &Area,
    worst: &BTreeMap<(usize, bool), (f64, &ProfilePoint)>,
    centre: Option<usize>,
) -> Result<()> {
    let deepest = worst.keys().map(|(depth, _)| *depth).max().unwrap_or(0) as f64 + 1.0;
    let mut chart = powers(area, deepest, "nodes from the input", "")?;
    let mut line: BTreeMap<usize, f64> = BTreeMap::new();
    for ((depth, _), (power, _)) in worst {
        let place = line.entry(*depth).or_insert(EXACT);
        *place = place.max(*power);
    }
    let line = line.into_iter().map(|(depth, power)| (depth as f64, power));
    // What is no number has a lane of its own.
    let lane = [(-1.0, NO_NUMBER), (deepest, NO_NUMBER)];
    chart.draw_series(LineSeries::new(lane, GRID.stroke_width(1)))?;
    let label = ("sans-serif", 13, &INK).into_text_style(area);
    chart.draw_series([Text::new("∞, NaN", (-0.95, NO_NUMBER + 0.45), label)])?;
    if let Some(centre) = centre {
        break_mark(area, &mut chart, centre)?;
    }
    chart.draw_series(LineSeries::new(line, LINE.stroke_width(2)))?;
    chart.draw_series(worst.iter().map(|((depth, is_cast), (power, _))| {
        let colour = if *is_cast { FLUSHED } else { KEPT };
        let size = if *is_cast { 5 } else { 3 };
        Circle::new((*depth as f64, *power), size, colour.filled())
    }))?;
    Ok(())
}

/// The drawing, whose last elements of a kind say what they are where a pointer rests on them.
fn with_titles(svg: &str, element: &str, titles: &[String]) -> String {
    let others = svg.matches(element).count().saturating_sub(titles.len());
    let mut titles = iter::repeat_n(None, others).chain(titles.iter().map(Some));
    let name = element.trim_matches(['<', ' ']);
    let line = |line: &str| {
        let title = if line.starts_with(element) { titles.next().flatten() } else { None };
        match (title, line.strip_suffix("/>")) {
            (Some(title), Some(open)) => {
                format!("{open}><title>{}</title></{name}>\n", escaped(title))
            }
            _ => format!("{line}\n"),
        }
    };
    svg.lines().map(line).collect()
}

struct Bar {
    place: i32,
    count: u64,
    colour: RGBColor,
    title: String,
}

/// The colour for values from 2^exponent to 2^(exponent + 1): what becomes of them in the target.
fn colour(exponent: i32, target: Option<&ReportedReach>) -> RGBColor {
    let Some(target) = target else { return KEPT };
    let low = 2f64.powi(exponent);
    // From half of the smallest value on, values round up to it.
    let smallest = target.min_positive.map_or(1.0, |Num(smallest)| smallest / 2.0);
    match target.min_normal {
        _ if low > target.max.0 => BEYOND,
        _ if low < smallest => FLUSHED,
        Some(Num(normal)) if low < normal => SUBNORMAL,
        _ => KEPT,
    }
}

fn draw(bars: &[Bar], reach: Option<(f64, f64)>, places: &str, name: &str) -> Option<String> {
    let titles: Vec<String> = bars.iter().map(|bar| bar.title.clone()).collect();
    let plot = |area: &Area| plot(area, bars, reach, places);
    (!bars.is_empty()).then(|| drawn((SIZE, name), ("<rect ", titles), plot)).flatten()
}

fn plot(area: &Area, bars: &[Bar], reach: Option<(f64, f64)>, places: &str) -> Result<()> {
    const MARGIN: f64 = 2.0;
    let powers = || bars.iter().map(|bar| f64::from(bar.place));
    let mut low = powers().fold(f64::INFINITY, f64::min) - MARGIN;
    let mut high = powers().fold(f64::NEG_INFINITY, f64::max) + 1.0 + MARGIN;
    if let Some((smallest, largest)) = reach {
        // Show the ends of the range, unless the values would then fill less than a third of the
        // chart.
        let width = (high - low).max(24.0);
        low = low.min(smallest - MARGIN).max(low - width);
        high = high.max(largest + MARGIN).min(high + width);
    }
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(1);
    let top = height(most) * 1.08;
    let band =
        reach.map(|(smallest, largest)| [(smallest.max(low), 0.0), (largest.min(high), top)]);
    // One label for each power of ten at most: labels between two of them would be empty.
    let labels = (8, (top as usize + 1).min(7));
    let frame = ChartFrame { x: low..high, y: 0.0..top, labels, width: 40, places, band };
    let mut chart = frame.chart(area, &|height| count_at(*height))?;
    chart.draw_series(bars.iter().map(|bar| {
        let place = f64::from(bar.place);
        Rectangle::new(
            [(place + 0.06, 0.0), (place + 0.94, height(bar.count))],
            bar.colour.filled(),
        )
    }))?;
    Ok(())
}

/// The height of a bar. The scale is logarithmic, so that one value can be seen among millions; 1
/// has the height 1, for 0 has the height 0.
fn height(count: u64) -> f64 {
    if count == 0 { 0.0 } else { (count as f64).log10() + 1.0 }
}

/// The count at a height, if it is 0 or a power of ten.
fn count_at(height: f64) -> String {
    if height.fract() != 0.0 {
        return String::new();
    }
    match height as i32 {
        0 => "0".into(),
        power @ 1..4 => format!("{}", 10f64.powi(power - 1)),
        power @ 4..7 => format!("{}k", 10f64.powi(power - 4)),
        power @ 7..10 => format!("{}M", 10f64.powi(power - 7)),
        power => format!("{}G", 10f64.powi(power - 10)),
    }
}
