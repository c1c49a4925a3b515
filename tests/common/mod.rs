//! Running a test case as every ONNX runtime lays them out, through tract as it is released.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{
    Conversion, ElementType, Family, RoundMode, Rules, output_element_types, tensor_proto,
};

/// The crate's folder.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
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

fn read(path: &Path) -> Typed {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let proto = TensorProto::decode(&*bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let (ty, tensor) = tensor_proto::read(&proto, None).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    Typed { ty, tensor }
}

/// Bytes per element of a numeric type, in a tensor and in the vectors.
pub fn width(ty: ElementType) -> usize {
    ty.carrier_bytes().expect("a numeric type")
}

/// The code in little-endian bytes.
pub fn code_of_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte))
}

/// A tensor of one dimension from codes, small signed integers sign-extended as carriers have them.
pub fn tensor_of_codes(ty: ElementType, codes: &[u64]) -> Tensor {
    let mut tensor = Tensor::zero_dt(ty.datum_type(), &[codes.len()]).expect("a tensor");
    let unused = 64 - ty.bits();
    let is_signed = ty.family() == Family::Signed;
    for (place, code) in tensor.as_bytes_mut().chunks_mut(width(ty)).zip(codes) {
        let value = if is_signed { ((code << unused) as i64 >> unused) as u64 } else { *code };
        place.copy_from_slice(&value.to_le_bytes()[..place.len()]);
    }
    tensor
}

/// The inverse of [`tensor_of_codes`].
pub fn codes_of_tensor(ty: ElementType, tensor: &Tensor) -> Vec<u64> {
    tensor.as_bytes().chunks(width(ty)).map(|place| code_of_bytes(place) & ty.code_mask()).collect()
}

/// The generator that the sweeps' inputs are defined by: numbers that look like nothing in particular, the same on every
/// run.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

/// Every numeric element type.
pub fn numeric() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text)
}

/// The attributes that make a difference for a target.
pub fn rules(to: ElementType) -> Vec<Rules> {
    let modes = match to {
        ElementType::Float8E8M0 => vec![RoundMode::Up, RoundMode::Down, RoundMode::Nearest],
        _ => vec![RoundMode::Up],
    };
    let saturates = |round_mode| [true, false].map(|saturate| Rules { saturate, round_mode });
    modes.into_iter().flat_map(saturates).collect()
}

/// Every code of a narrow type. Of a wide one: around every power of two, around halves of every format's last place,
/// integers and their neighbours, and so many at random.
pub fn samples(ty: ElementType, at_random: usize) -> Vec<u64> {
    if ty == ElementType::Bool {
        // tract's tensors of bool hold nothing else.
        return vec![0, 1];
    }
    if ty.bits() <= 16 {
        return (0..=ty.code_mask()).collect();
    }
    let mut random = SplitMix64(u64::from(ty.bits()) + ty as u64);
    let mut samples = vec![0, ty.code_mask()];
    for power in 0..ty.bits() {
        for nudge in 0..5u64 {
            let near = (1u64 << power).wrapping_add(nudge).wrapping_sub(2);
            samples.extend([near, near.wrapping_neg(), !near]);
        }
    }
    if let Family::Float(format) = ty.family() {
        let m = format.mantissa_bits;
        for exponent in 0..1u64 << format.exponent_bits {
            for _ in 0..(at_random >> format.exponent_bits).clamp(5, 200) {
                // A short mantissa, so that ties are as likely as anything else, or one step beside it.
                let kept = random.next() % u64::from(m + 1);
                let mantissa = random.next() >> (64 - m) >> kept << kept;
                let beside = [0, 1, u64::MAX][(random.next() % 3) as usize];
                let sign = random.next() & format.sign_bit();
                samples.push((sign | exponent << m | mantissa).wrapping_add(beside));
            }
        }
        for _ in 0..at_random / 10 {
            let integer = (random.next() >> (random.next() % 64)) as f64;
            let is_double = ty == ElementType::Double;
            let code =
                if is_double { integer.to_bits() } else { (integer as f32).to_bits().into() };
            samples.extend([code, code | format.sign_bit(), code + 1]);
        }
    }
    samples.extend((0..at_random).map(|_| random.next()));
    // Integers of every magnitude.
    samples.extend((0..at_random).map(|_| random.next() >> (random.next() % 64)));
    samples.iter().map(|code| code & ty.code_mask()).collect()
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
fn numbers(value: &Typed) -> Vec<f64> {
    let wide = Conversion::new(value.ty, ElementType::Double, Rules::default());
    let wide = wide.run(&value.tensor).expect("a numeric tensor");
    wide.try_as_plain_ram().expect("plain").as_slice::<f64>().expect("doubles").to_vec()
}

/// Which elements differ: bit for bit but for NaN, or beyond the tolerance where floats may be off by one.
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
    let is_float = matches!(got.ty.family(), Family::Float(_));
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
