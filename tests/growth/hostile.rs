//! Models that are made to hurt take the library little time and memory, or are refused.

use std::io::Cursor;
use std::time::Duration;

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{Error, onnx};

use crate::common::cases::files;
use crate::common::hostile::{crowds, makers};
use crate::common::proto::bytes;
use crate::{alone, busy, peak};

const LONGEST: Duration = Duration::from_secs(10);
const MOST: usize = 1 << 30;

/// Loads a model, and runs it on zeros.
fn run(file: &[u8]) -> TractResult<()> {
    let model = onnx().model_for_read(&mut Cursor::new(file))?.into_optimized()?;
    let zeros = |outlet: &OutletId| {
        let fact = model.outlet_fact(*outlet)?;
        let shape = fact.shape.as_concrete().map(<[usize]>::to_vec);
        let shape = shape.unwrap_or_else(|| vec![2; fact.rank()]);
        Ok(Tensor::zero_dt(fact.datum_type, &shape)?.into_tvalue())
    };
    let inputs = model.inputs.iter().map(zeros).collect::<TractResult<TVec<TValue>>>()?;
    model.into_runnable()?.run(inputs).map(|_| ())
}

/// What came of a model, within the time and the memory that there is.
fn bounded(name: &str, model: &ModelProto) -> TractResult<()> {
    let file = bytes(model);
    measured(name, || run(&file))
}

/// What came of some work, within the time and the memory that there is. Nothing else is measured
/// meanwhile.
fn measured(name: &str, work: impl FnOnce() -> TractResult<()>) -> TractResult<()> {
    let start = busy();
    let mut outcome = Ok(());
    let most = peak(|| outcome = without_panic(work));
    let spent = busy() - start;
    println!(
        "{name}: {spent:?}, {} MiB, {:.200}",
        most >> 20,
        format!("{outcome:?}").replace('\n', " ")
    );
    assert!(spent < LONGEST, "{name}: {spent:?}");
    assert!(most < MOST, "{name}: {most} bytes");
    outcome
}

#[test]
fn next_to_nothing_does_not_become_enormous() {
    let _alone = alone();
    for (name, model) in makers() {
        let error = bounded(name, &model).expect_err(name);
        let own = error.chain().find_map(|link| link.downcast_ref());
        assert_eq!(own.and_then(Error::limit), Some("made_bytes"), "{name}: {error:#}");
    }
}

/// What running a model takes, the model says.
#[test]
fn loading_a_file_is_no_danger() {
    let _alone = alone();
    for path in files() {
        let load = || onnx().model_for_path(&path)?.into_optimized()?.into_runnable().map(|_| ());
        drop(measured(&path.display().to_string(), load));
    }
}

#[test]
fn crowds_are_no_danger() {
    let _alone = alone();
    let mut refused = 0;
    for (name, model) in crowds() {
        refused += usize::from(bounded(name, &model).is_err());
    }
    assert!(refused > 10, "{refused}");
}
