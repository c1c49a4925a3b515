//! The exact vectors of `data/vectors.zip`, bit for bit: every pair of types, every attribute, long
//! sweeps, and which nodes are valid. `data/vectors.md` describes their form.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use test_tools::sha2::{Digest, Sha256};
use test_tools::{serde_json, zip};
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::{Tensor, tract_ndarray};
use tract_onnx_cast::kernel::{Level, convert_scalar};
use tract_onnx_cast::model_proto::CastSpec;
use tract_onnx_cast::{Conversion, ElementType, Family, RoundMode, Rules};

use crate::common::cases::root;
use crate::common::elements::{
    SplitMix64, code_of_le_bytes, codes_of_tensor, tensor_of_codes, width,
};
use crate::common::machine::levels;
use crate::common::proto::{int, node, string};

/// The lines of a member of the archive.
fn lines<T: DeserializeOwned>(member: &str) -> Vec<T> {
    let file = File::open(root().join("tests/data/vectors.zip")).expect("the vectors");
    let mut archive = zip::ZipArchive::new(file).expect("an archive");
    let mut text = String::new();
    let mut member = archive.by_name(member).expect("a member");
    member.read_to_string(&mut text).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of vectors")).collect()
}

fn element_type(name: &str) -> ElementType {
    ElementType::from_name(name).unwrap_or_else(|| panic!("no element type {name}"))
}

fn rules(saturate: Option<i64>, round_mode: Option<&str>) -> Rules {
    let default = Rules::default();
    Rules::new(
        saturate.map_or(default.saturate, |s| s != 0),
        round_mode.map_or(default.round_mode, |m| m.parse().expect("a round_mode")),
    )
}

fn codes_of_hex(ty: ElementType, hex: &str) -> Vec<u64> {
    let bytes: Vec<u8> = (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal digits"))
        .collect();
    bytes.chunks(width(ty)).map(code_of_le_bytes).collect()
}

fn is_nan(ty: ElementType, code: u64) -> bool {
    matches!(ty.family(), Family::Float(format) if format.is_nan(code))
}

fn same(ty: ElementType, nan_sign_matters: bool, got: u64, want: u64) -> bool {
    got == want || (!nan_sign_matters && is_nan(ty, got) && is_nan(ty, want)) || {
        let Family::Float(format) = ty.family() else { return false };
        is_nan(ty, got) && is_nan(ty, want) && (got ^ want) & format.sign_bit() == 0
    }
}

fn strings(texts: &[String]) -> Tensor {
    tract_ndarray::Array1::from_vec(texts.to_vec()).into()
}

#[derive(Deserialize)]
struct Line {
    from: String,
    to: String,
    saturate: Option<i64>,
    round_mode: Option<String>,
    in_hex: Option<String>,
    out_hex: Option<String>,
    r#in: Option<Vec<String>>,
    out: Option<Vec<String>>,
    #[serde(default)]
    error: bool,
    nan_sign: Option<String>,
}

impl Line {
    /// What is wrong with our results, a line per element.
    fn complaints(&self, level: Level) -> Vec<String> {
        let (from, to) = (element_type(&self.from), element_type(&self.to));
        let rules = rules(self.saturate, self.round_mode.as_deref());
        let conversion = Conversion::new(from, to, rules).at_level(level);
        let about = format!("{from} to {to} {rules:?}");
        if self.error {
            let accepted = |text: &&String| conversion.run(&strings(&[text.to_string()])).is_ok();
            let texts = self.r#in.iter().flatten();
            return texts.filter(accepted).map(|t| format!("{about}: {t:?} is accepted")).collect();
        }
        let input = match (&self.r#in, &self.in_hex) {
            (Some(texts), _) => strings(texts),
            (_, Some(hex)) => tensor_of_codes(from, &codes_of_hex(from, hex)),
            _ => panic!("a line without input"),
        };
        let output = match conversion.run(&input) {
            Ok(output) => output,
            Err(error) => return vec![format!("{about}: {error:#}")],
        };
        if let Some(want) = &self.out {
            let view = output.try_as_plain_ram().expect("plain");
            let got = view.as_slice::<String>().expect("strings");
            let pairs = got.iter().zip(want).filter(|(g, w)| g != w);
            return pairs.map(|(g, w)| format!("{about}: {g:?}, want {w:?}")).collect();
        }
        let want = codes_of_hex(to, self.out_hex.as_deref().expect("a line with output"));
        let strict = self.nan_sign.as_deref() == Some("strict");
        let got = codes_of_tensor(to, &output);
        assert_eq!(got.len(), want.len(), "{about}");
        let complaint = |index: usize| {
            let (g, w) = (got[index], want[index]);
            (!same(to, strict, g, w)).then(|| format!("{about} #{index}: {g:x}, want {w:x}"))
        };
        let mut complaints: Vec<String> = (0..got.len()).filter_map(complaint).collect();
        if let Some(hex) = &self.in_hex {
            // The scalar truth must say the very same, canonical NaN included.
            for (index, code) in codes_of_hex(from, hex).into_iter().enumerate() {
                let truth = convert_scalar(from, to, rules, code);
                if to.family() != Family::Text && truth != Some(got[index]) {
                    complaints.push(format!(
                        "{about} #{index}: kernel {:x}, scalar {truth:x?}",
                        got[index]
                    ));
                }
            }
        }
        complaints
    }
}

fn assert_none(complaints: Vec<String>) {
    let some: Vec<_> = complaints.iter().take(20).collect();
    assert!(complaints.is_empty(), "{} wrong, the first: {some:#?}", complaints.len());
}

#[test]
fn every_pair_matches_its_vectors_at_every_level() {
    let mut complaints = vec![];
    let mut pairs = BTreeSet::new();
    for line in lines::<Line>("pairs.jsonl") {
        for &level in levels() {
            complaints.extend(line.complaints(level));
        }
        pairs.insert((line.from, line.to));
    }
    assert_eq!(pairs.len(), ElementType::ALL.len() * ElementType::ALL.len());
    assert_none(complaints);
}

#[derive(Deserialize)]
struct Sweep {
    from: String,
    to: String,
    saturate: Option<i64>,
    round_mode: Option<String>,
    inputs: String,
    /// Hexadecimal, with 0x.
    seed: Option<String>,
    count: u64,
    sha256: String,
}

impl Sweep {
    fn input_codes(&self) -> Vec<u64> {
        let from = element_type(&self.from);
        let mut random = SplitMix64(self.seed());
        (0..self.count).map(|index| self.input_code(from, index, &mut random)).collect()
    }

    fn seed(&self) -> u64 {
        let digits = self.seed.as_deref().map(|seed| seed.trim_start_matches("0x"));
        digits.map_or(0, |digits| u64::from_str_radix(digits, 16).expect("a seed"))
    }

    fn input_code(&self, from: ElementType, index: u64, random: &mut SplitMix64) -> u64 {
        let bits = from.bits();
        match self.inputs.as_str() {
            "all" => index,
            "random" => random.next() & from.code_mask(),
            "pos" => random.next() & from.code_mask() >> 1,
            "shaped" => shaped(from, 40, 80, random),
            "log" => {
                let is_signed = from.family() == Family::Signed;
                let width = if is_signed { bits - 1 } else { bits };
                let (a, b) = (random.next(), random.next());
                let value = (a & (u64::MAX >> (64 - width))) >> (b % u64::from(width));
                let negate = is_signed && b >> 63 == 1;
                (if negate { value.wrapping_neg() } else { value }) & from.code_mask()
            }
            fit => {
                let unsigned = fit.strip_prefix("fitu");
                let top: u64 =
                    unsigned.or(fit.strip_prefix("fit")).expect("fit").parse().expect("N");
                let code = shaped(from, 12, 12 + top, random);
                if unsigned.is_some() { code & from.code_mask() >> 1 } else { code }
            }
        }
    }

    fn digest(&self, level: Level) -> String {
        let (from, to) = (element_type(&self.from), element_type(&self.to));
        let conversion =
            Conversion::new(from, to, rules(self.saturate, self.round_mode.as_deref()));
        let input = tensor_of_codes(from, &self.input_codes());
        let output = conversion.at_level(level).run(&input).expect("numeric casts do not fail");
        let mut hash = Sha256::new();
        match to.family() {
            Family::Text => {
                let view = output.try_as_plain_ram().expect("plain");
                for text in view.as_slice::<String>().expect("strings") {
                    hash.update(text);
                    hash.update(b"\n");
                }
            }
            family => {
                for code in codes_of_tensor(to, &output) {
                    let canonical = match family {
                        Family::Float(format) if format.is_nan(code) => format.nan(false),
                        _ => code,
                    };
                    hash.update(&canonical.to_le_bytes()[..width(to)]);
                }
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn shaped(ty: ElementType, below: i64, span: u64, random: &mut SplitMix64) -> u64 {
    let Family::Float(format) = ty.family() else { panic!("{ty} is no float") };
    let (a, b, c) = (random.next(), random.next(), random.next());
    let m = format.mantissa_bits;
    let field = (i64::from(format.bias) - below + (a % span) as i64) as u64;
    let mantissa = b >> (64 - m);
    let cleared = c % u64::from(m + 1);
    (a >> 63) << (ty.bits() - 1) | field << m | mantissa >> cleared << cleared
}

#[test]
fn sweeps_have_their_digests_at_every_level() {
    let sweeps: Vec<Sweep> = lines("sweeps.jsonl");
    assert!(sweeps.len() > 250);
    let mut complaints = vec![];
    for sweep in &sweeps {
        for &level in levels() {
            if sweep.digest(level) != sweep.sha256 {
                let Sweep { from, to, inputs, saturate, round_mode, .. } = sweep;
                complaints.push(format!(
                    "{from} to {to}, {inputs}, saturate {saturate:?}, {round_mode:?}, {level:?}"
                ));
            }
        }
    }
    assert_none(complaints);
}

#[derive(Deserialize)]
struct Validity {
    opset: i64,
    from: Option<String>,
    to_int: Option<i64>,
    to_str: Option<String>,
    saturate: Option<i64>,
    round_mode: Option<String>,
    valid: bool,
    to: Option<String>,
}

impl Validity {
    fn decide(&self) -> Result<ElementType, String> {
        let attributes = [
            self.to_int.map(|to| int("to", to)),
            self.to_str.as_deref().map(|to| string("to", to)),
            self.saturate.map(|saturate| int("saturate", saturate)),
            self.round_mode.as_deref().map(|mode| string("round_mode", mode)),
        ];
        let attributes = attributes.into_iter().flatten().collect();
        let node = NodeProto { name: "c".into(), ..node("Cast", &["x"], &["y"], attributes) };
        let spec = CastSpec::parse(&node, self.opset).map_err(|error| error.to_string())?;
        let from = element_type(self.from.as_deref().unwrap_or("FLOAT"));
        spec.check_type(from, "input").map_err(|error| error.to_string())?;
        spec.to.ok_or_else(|| "no target".into())
    }
}

#[test]
fn every_node_is_judged_as_it_should_be() {
    let cases: Vec<Validity> = lines("nodes.jsonl");
    assert!(cases.len() > 900);
    let mut complaints = vec![];
    for (index, case) in cases.iter().enumerate() {
        let want = case.to.as_deref().filter(|_| case.valid).map(element_type);
        let got = case.decide();
        if got.as_ref().ok() != want.as_ref() {
            complaints.push(format!("#{index}: {got:?}, want {want:?}"));
        }
        if let Err(message) = got
            && (!message.contains("`c`") || !message.contains(&case.opset.to_string()))
        {
            complaints.push(format!("#{index}: {message} names no node or no opset"));
        }
    }
    assert_none(complaints);
}

#[test]
fn round_modes_are_the_words_of_the_attribute() {
    let words = [RoundMode::Up, RoundMode::Down, RoundMode::Nearest].map(RoundMode::name);
    assert_eq!(words, ["up", "down", "nearest"]);
}
