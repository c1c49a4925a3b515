//! Both errors of each inner tensor along the graph, before the band in which the conversion's
//! roundings put it.

use plotters::prelude::*;

use super::charts::{
    Area, EXACT, KEPT, LINE, RANGE, Result, WIDE, break_mark, drawn, power, powers,
};
use crate::cli::found::verdict::{BothErrors, Judgement};
use crate::cli::measure::number::Num;

/// The most places that there are along the graph: of the tensors at one the worst shows.
const PLACES: usize = 400;

/// The tensors at a place, by the powers of ten of their errors.
struct PlottedPlace {
    accumulated: Option<f64>,
    local: f64,
    band: Option<f64>,
    title: String,
}

impl PlottedPlace {
    fn of(rows: &[BothErrors]) -> Option<PlottedPlace> {
        let worst = rows.iter().max_by(|x, y| x.local.0.total_cmp(&y.local.0))?;
        let most = |of: fn(&BothErrors) -> Option<Num>| {
            rows.iter().filter_map(of).map(power).max_by(f64::total_cmp)
        };
        let written =
            |error: Option<Num>| error.map_or("unknown".into(), |error| error.to_string());
        let title = format!(
            "{}, which {} {} makes: {} by itself, {} in all, {} by its roundings",
            worst.tensor,
            worst.op,
            worst.node,
            worst.local,
            written(worst.accumulated),
            written(worst.band)
        );
        Some(PlottedPlace {
            accumulated: most(|row| row.accumulated),
            local: power(worst.local),
            band: most(|row| row.band.filter(|band| !band.0.is_nan())),
            title,
        })
    }
}

/// The chart, with a mark at the tensor where it breaks, if there is one; `None` if there are too
/// few tensors.
pub(super) fn both_errors(judgement: &Judgement, centre: Option<&str>) -> Option<String> {
    // Weights have no error that travels.
    let is_value = |row: &&BothErrors| row.accumulated.is_some();
    let rows: Vec<BothErrors> = judgement.errors.iter().filter(is_value).cloned().collect();
    let size = rows.len().div_ceil(PLACES).max(1);
    let places: Vec<PlottedPlace> = rows.chunks(size).filter_map(PlottedPlace::of).collect();
    let centre = centre.and_then(|centre| rows.iter().position(|row| row.tensor == centre));
    if places.len() < 3 {
        return None;
    }
    let titles = places.iter().map(|place| place.title.clone()).collect();
    let name = "The accumulated and the local error of the tensors in the order of computation";
    drawn((WIDE, name), ("<circle ", titles), |area| {
        plot(area, &places, centre.map(|at| at / size))
    })
}

fn plot(area: &Area, places: &[PlottedPlace], centre: Option<usize>) -> Result<()> {
    let end = places.len() as f64;
    let mut chart = powers(area, end, "tensors in the order of computation", "∞")?;
    let all = || places.iter().enumerate().map(|(place, found)| (place as f64, found));
    let bottom = EXACT - 0.5;
    let ends = ([(0.0, bottom)], [(end - 1.0, bottom)]);
    let band = all().map(|(place, found)| (place, found.band.unwrap_or(EXACT)));
    let band: Vec<(f64, f64)> = ends.0.into_iter().chain(band).chain(ends.1).collect();
    chart.draw_series([Polygon::new(band, RANGE.filled())])?;
    if let Some(centre) = centre {
        break_mark(area, &mut chart, centre)?;
    }
    let line = all().filter_map(|(place, found)| Some((place, found.accumulated?)));
    chart.draw_series(LineSeries::new(line, LINE.stroke_width(2)))?;
    let local = all().map(|(place, found)| Circle::new((place, found.local), 3, KEPT.filled()));
    chart.draw_series(local)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(place: usize, errors: [f64; 3]) -> BothErrors {
        let [accumulated, local, band] = errors.map(Num);
        BothErrors {
            tensor: format!("t{place}"),
            node: format!("n{place}"),
            op: "Add".into(),
            accumulated: Some(accumulated),
            local,
            band: Some(band),
        }
    }

    #[test]
    fn both_errors_and_the_band_are_drawn() {
        let errors =
            (0..1000).map(|place| row(place, [1e-3, if place == 500 { 0.5 } else { 0.0 }, 1e-2]));
        let judgement = Judgement { errors: errors.collect(), ..Judgement::default() };
        let svg = both_errors(&judgement, None).expect("a chart");
        assert!(!svg.contains("it breaks here"));
        let marked = both_errors(&judgement, Some("t500")).expect("a chart");
        assert_eq!(marked.matches("it breaks here").count(), 1, "{marked}");
        assert_eq!(svg.matches("<circle ").count(), 334, "three to a place");
        assert!(svg.contains(
            "t500, which Add n500 makes: 0.5000 by itself, 0.001000 in all, 0.01000 by its"
        ));
        assert!(svg.contains("<polygon ") && svg.contains("<polyline "), "the band and the line");
        let few = Judgement { errors: vec![row(0, [1.0; 3])], ..Judgement::default() };
        assert!(both_errors(&few, None).is_none());
    }
}
