//! A `Slice` of an axis whose size is a symbol, of every small size, gives what its definition says
//! or an error that names it, whatever is made of it.

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::common::proto::{Sketch, int, int64, set_dim, symbol};

use ElementType::Int64;

/// A size of which no slice that takes something is refused: its bounds are places in the axis,
/// where they are not at an end of INT64.
const LONG: i64 = 7;

/// Places in an axis of elements that are their own places, by the definition (numpy's).
fn sliced(size: i64, start: i64, end: i64, step: i64) -> Vec<i64> {
    let [size, step] = [size, step].map(i128::from);
    let place = |bound: i64, least: i128, most: i128| {
        let bound = i128::from(bound);
        (if bound < 0 { bound + size } else { bound }).clamp(least, most)
    };
    let (mut at, end) = if step > 0 {
        (place(start, 0, size), place(end, 0, size))
    } else if size == 0 {
        return vec![];
    } else {
        // ONNX, unlike numpy, begins at the first element where the start is before it.
        (place(start, 0, size - 1), place(end, -1, size - 1))
    };
    let mut places = vec![];
    while if step > 0 { at < end } else { at > end } {
        places.push(i64::try_from(at).expect("a place"));
        at += step;
    }
    places
}

fn bounds() -> Vec<i64> {
    (-3..=3).chain([i64::MIN, i64::MAX - 1, i64::MAX]).collect()
}

/// What is made of a slice `z` of `x`, and of the places that it takes.
type Made = (&'static str, fn(Sketch) -> Sketch, fn(&[i64]) -> Tensor);

const MADE: [Made; 5] = [
    ("itself", |z| z.node("Identity", &["z"], &["y"], vec![]), |places| tensor1(places)),
    (
        "the sum of what is before",
        |z| z.node("CumSum", &["z", "axis"], &["y"], vec![int("exclusive", 1)]),
        |places| {
            let before = places.iter().scan(0, |sum, place| {
                *sum += place;
                Some(*sum - place)
            });
            tensor1(&before.collect::<Vec<i64>>())
        },
    ),
    (
        "as many zeros",
        |z| z.initializer(int64("zero", &[0])).node("Mul", &["z", "zero"], &["y"], vec![]),
        |places| tensor1(&vec![0i64; places.len()]),
    ),
    (
        "its size",
        |z| z.node("Shape", &["z"], &["y"], vec![]),
        |places| tensor1(&[places.len() as i64]),
    ),
    (
        "what is behind its first",
        |z| {
            let z = z.initializer(int64("one", &[1])).initializer(int64("all", &[i64::MAX]));
            z.node("Slice", &["z", "one", "all"], &["y"], vec![])
        },
        |places| tensor1(places.get(1..).unwrap_or_default()),
    ),
];

#[test]
fn slices_of_open_sizes_are_right_or_refused() {
    let (mut wrong, mut refused, mut right) = (vec![], 0, 0);
    for (what, make, expected) in MADE {
        for step in [1, 2, 3, -1, -2, -3] {
            for (start, end) in bounds()
                .into_iter()
                .flat_map(|start| bounds().into_iter().map(move |end| (start, end)))
            {
                let name = format!("{what} of [{start}:{end}:{step}]");
                let mut sketch = Sketch::new()
                    .input("x", Int64, &[-1])
                    .initializer(int64("start", &[start]))
                    .initializer(int64("end", &[end]))
                    .initializer(int64("axis", &[0]))
                    .initializer(int64("step", &[step]))
                    .node("Slice", &["x", "start", "end", "axis", "step"], &["z"], vec![]);
                set_dim(&mut sketch.0.input[0], 0, symbol("N"));
                let mut sketch = make(sketch).output("y", Int64, &[-1]);
                set_dim(&mut sketch.0.output[0], 0, symbol("M"));
                let plan = sketch.load().and_then(|model| model.into_optimized()?.into_runnable());
                let plan = match plan {
                    Ok(plan) => plan,
                    Err(error) => {
                        let error = format!("{error:#}");
                        assert!(error.contains("takes no elements of a slice"), "{name}: {error}");
                        refused += 1;
                        continue;
                    }
                };
                for size in 0..=LONG {
                    let x = tensor1(&(0..size).collect::<Vec<i64>>());
                    let places = sliced(size, start, end, step);
                    let expected = expected(&places);
                    match plan.run(tvec!(x.into_tvalue())) {
                        Ok(y) if *y[0] == expected => right += 1,
                        Ok(y) => wrong.push(format!("{name} of {size}: {:?}", y[0])),
                        Err(error) => {
                            let error = format!("{error:#}");
                            if size == LONG && !places.is_empty() || !error.contains("Slice") {
                                wrong.push(format!("{name} of {size}: {error}"));
                            }
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused < right / 2, "{refused} refused, {right} right");
}
