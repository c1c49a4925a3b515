//! Models: the rewrite is sound for anything, and whatever panics while a model is loaded is
//! tract's.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use prost::Message;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastOnnx, Limits, model_proto};

thread_local! {
    static ONNX: CastOnnx = tract_onnx_cast::onnx().with_limits(limits());
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// So much may constants make, that what is not counted is seen soon.
const MADE: u64 = 16 << 20;

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.made_bytes = MADE;
    limits
}

fn read(onnx: &CastOnnx, data: &[u8]) -> Option<ModelProto> {
    onnx.proto_model_for_read(&mut &*data).ok()
}

/// The casts of a model are listed twice as the same, and listed by a survey as well.
pub fn casts(data: &[u8]) {
    ONNX.with(|onnx| {
        let Some(proto) = read(onnx, data) else { return };
        let Ok(survey) = model_proto::survey(onnx, proto.clone(), None) else { return };
        let again = model_proto::survey(onnx, proto.clone(), None).expect("the same model");
        assert_eq!(survey.rows(), again.rows());
        if let Ok(loaded) = model_proto::load(onnx, proto, None) {
            assert!(survey.problems().is_empty(), "{:?}", survey.problems());
            assert_eq!(survey.rows(), loaded.survey().rows());
        }
    });
}

/// Loads, types and optimises a model.
pub fn load(data: &[u8]) {
    let load = |model: InferenceModel| model.into_optimized().map(drop);
    caught(|| typed(data, load));
}

/// What a loader makes of a model that nothing is to be said against; none, if there is something.
pub fn typed<T>(data: &[u8], load: impl FnOnce(InferenceModel) -> TractResult<T>) -> Option<T> {
    ONNX.with(|onnx| {
        ModelProto::decode(data).ok()?;
        let proto = read(onnx, data)?;
        let survey = model_proto::survey(onnx, proto.clone(), None);
        if survey.is_ok_and(|survey| !survey.problems().is_empty()) {
            return None;
        }
        load(model_proto::load(onnx, proto, None).ok()?.into_model()).ok()
    })
}

/// What a function returns; none, if something of a dependency panics: nothing else may.
pub fn caught<T>(run: impl FnOnce() -> Option<T>) -> Option<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!("{place}")).unwrap_or_default();
        let place = if is_shared(&place) { caller().unwrap_or(place) } else { place };
        PLACE.with(|kept| *kept.borrow_mut() = place);
    }));
    let made = panic::catch_unwind(AssertUnwindSafe(run));
    panic::set_hook(hook);
    made.unwrap_or_else(|_| {
        let place = PLACE.with(|kept| kept.borrow().clone());
        assert!(is_of_a_dependency(&place), "{place}");
        None
    })
}

/// Whether a place is in what both tract and this project call: of its panic, the caller tells
/// whose it is.
fn is_shared(place: &str) -> bool {
    is_of_a_dependency(place) && !place.contains("/tract-")
}

/// The innermost function on the stack that is tract's or this project's, if it is this project's.
fn caller() -> Option<String> {
    let trace = Backtrace::force_capture().to_string();
    let mut functions = trace.lines().filter(|line| !line.trim_start().starts_with("at "));
    let innermost = functions.find(|function| function.contains("tract_"))?;
    innermost.contains("tract_onnx_cast::").then(|| innermost.trim().to_owned())
}

fn is_of_a_dependency(place: &str) -> bool {
    ["/registry/", "/library/", "/rustc/", "/rustlib/"].iter().any(|part| place.contains(part))
}
