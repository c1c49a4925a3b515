use tract_onnx::prelude::{IntoTValue, tensor1, tvec};

use super::*;
use crate::audit::measure::measure_conversion;
use crate::audit::{Audit, Outcome};
use crate::cast::rules::Rules;
use crate::tensor::conversion::Conversion;

#[test]
fn what_is_counted_later_is_counted_once() {
    let (from, to) = (ElementType::Float, ElementType::Float16);
    let conversion = Conversion::new(from, to, Rules::default());
    let numbers: Vec<f32> = (0..COUNTED_LATER.start as u32 + 3).map(|i| i as f32 * 4.3).collect();
    let x = tensor1(&numbers).into_tvalue();
    let y = conversion.run(&x).expect("a cast").into_tvalue();
    let once = measure_conversion(&conversion, &x, &y, 1).expect("carriers");
    assert!(once.count(Outcome::Overflowed) > 0 && once.count(Outcome::Rounded) > 0);
    let watched = WatchedOp::Cast(conversion);
    const RUNS: u64 = 40;
    let asks: [fn(&Audit); 2] = [|audit| audit.end_set(), |audit| drop(audit.rows())];
    for ask in asks {
        let records = Arc::new(Records::new(1));
        for _ in 0..RUNS {
            let inputs = tvec!(x.clone());
            records.add_later(0, &watched, inputs, y.clone()).expect("carriers");
        }
        ask(&Audit { casts: [].into(), records: records.clone() });
        let record = records.with(0, |record| record.clone()).expect("a record");
        assert_eq!((record.runs, record.types), (RUNS, Some((from, to))));
        let mut sum = CastStats::default();
        (0..RUNS).for_each(|_| sum.merge(&once));
        assert_eq!(record.stats, sum);
    }
}
