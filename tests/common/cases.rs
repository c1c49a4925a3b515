//! Running a test case as every ONNX runtime lays them out, through tract as it is released.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Rules, output_element_types, tensor_proto};

/// The repository's folder.
pub fn root() -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("models").is_dir()).expect("the models are there").into()
}

/// A tensor and what it means.
#[derive(Debug, Clone)]
pub struct Typed {
    pub ty: ElementType,
    pub tensor: Tensor,
}

/// The tensors `input_0.pb`, `input_1.pb`, … of a data set, or its outputs.
pub fn tensors(folder: &Path, kind: &str) -> Vec<Typed> {
    let path = |index: usize| folder.join(format!("{kind}_{index}.pb"));
    (0..).map(path).take_while(|path| path.exists()).map(|path| read(&path)).collect()
}

/// Every folder below one that holds a model, with its path from there.
pub fn cases(below: &Path) -> Vec<(String, PathBuf)> {
    let mut cases = vec![];
    let mut folders = vec![below.to_path_buf()];
    while let Some(folder) = folders.pop() {
        if folder.join("model.onnx").exists() {
            let name = folder.strip_prefix(below).unwrap().to_str().unwrap().replace('\\', "/");
            cases.push((name, folder));
        } else {
            let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            folders.extend(entries.filter(|path| path.is_dir()));
        }
    }
    cases.sort();
    cases
}

/// The files below the folder `FILES`, or else some of what fuzzing has found.
pub fn files() -> Vec<PathBuf> {
    /// Of so many one.
    const SHARE: usize = 8;
    let (folder, share) = match std::env::var_os("FILES") {
        Some(folder) => (PathBuf::from(folder), 1),
        None => (root().join("fuzz/corpus/load"), SHARE),
    };
    let (mut files, mut folders) = (vec![], vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry"))
        {
            let found = if entry.path().is_dir() { &mut folders } else { &mut files };
            found.push(entry.path());
        }
    }
    files.sort();
    files.into_iter().step_by(share).collect()
}

/// The folder of a case's tensors.
pub fn data(folder: &Path) -> PathBuf {
    let data = folder.join("test_data_set_0");
    if data.exists() { data } else { folder.to_path_buf() }
}

fn read(path: &Path) -> Typed {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let proto = TensorProto::decode(&*bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let (ty, tensor) = tensor_proto::read(&proto, None).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    Typed { ty, tensor }
}

/// How a model is prepared before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// Typed with the inputs' shapes, nothing optimised.
    Typed,
    /// Decluttered, with the inputs' shapes.
    Decluttered,
    /// Optimised, with the inputs' shapes.
    Optimized,
    /// Optimised, with the shapes as the model declares them, symbols and all.
    OptimizedAsDeclared,
}

/// Loads a model, prepares it and runs it.
pub fn run(path: &Path, inputs: &[Typed], preparation: Preparation) -> TractResult<Vec<Typed>> {
    let mut model = tract_onnx_cast::onnx().model_for_path(path)?;
    for (index, input) in inputs.iter().enumerate() {
        if preparation != Preparation::OptimizedAsDeclared {
            let fact = InferenceFact::dt_shape(input.tensor.datum_type(), input.tensor.shape());
            model.set_input_fact(index, fact)?;
        }
    }
    let model = match preparation {
        Preparation::Typed => model.into_typed()?,
        Preparation::Decluttered => model.into_typed()?.into_decluttered()?,
        Preparation::Optimized | Preparation::OptimizedAsDeclared => model.into_optimized()?,
    };
    let types = output_element_types(&model)?;
    let values = inputs.iter().map(|input| input.tensor.clone().into_tvalue()).collect();
    let outputs = model.into_runnable()?.run(values)?;
    let typed = |(ty, value): (ElementType, TValue)| Typed { ty, tensor: value.into_tensor() };
    Ok(types.into_iter().zip(outputs).map(typed).collect())
}

/// How far a float may be from what is expected.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    pub rtol: f64,
    pub atol: f64,
}

/// The elements of a tensor as text, floats exactly.
pub fn spell(value: &Typed) -> Vec<String> {
    let text = Conversion::new(value.ty, ElementType::String, Rules::default());
    let texts = text.run(&value.tensor).expect("everything can be spelled");
    let view = texts.try_as_plain_ram().expect("plain");
    view.as_slice::<String>().expect("strings").to_vec()
}

/// The elements of a numeric tensor as DOUBLE.
pub fn numbers(value: &Typed) -> Vec<f64> {
    let wide = Conversion::new(value.ty, ElementType::Double, Rules::default());
    let wide = wide.run(&value.tensor).expect("a numeric tensor");
    wide.try_as_plain_ram().expect("plain").as_slice::<f64>().expect("doubles").to_vec()
}

/// Which elements differ: bit for bit but for NaN, or beyond the tolerance where floats may be off
/// by one.
pub fn differences(got: &Typed, want: &Typed, tolerance: Option<Tolerance>) -> Vec<usize> {
    assert_eq!((got.ty, got.tensor.shape()), (want.ty, want.tensor.shape()), "type and shape");
    if got.ty == ElementType::String {
        let (got, want) = (spell(got), spell(want));
        return (0..got.len()).filter(|index| got[*index] != want[*index]).collect();
    }
    let width = got.ty.carrier_bytes().expect("a numeric type");
    let bits = |value: &Typed, index: usize| -> Vec<u8> {
        value.tensor.as_bytes()[index * width..][..width].to_vec()
    };
    let (g, w) = (numbers(got), numbers(want));
    let is_float = got.ty.is_float();
    let same = |index: &usize| {
        let (a, b) = (g[*index], w[*index]);
        let close = match tolerance {
            Some(Tolerance { rtol, atol }) if is_float => {
                a == b || (a - b).abs() <= atol + rtol * b.abs()
            }
            _ => bits(got, *index) == bits(want, *index),
        };
        close || (is_float && a.is_nan() && b.is_nan())
    };
    (0..g.len()).filter(|index| !same(index)).collect()
}
