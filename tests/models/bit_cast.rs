//! `BitCast` between every two types of one width.

use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family, output_element_types};

use crate::common::elements::{codes_of_tensor, numeric, samples, tensor_of_codes};
use crate::common::proto::{Sketch, int, model, refusal};

use ElementType::{Bool, Float, Float6E2M3, Int8, Uint8, Uint16};

/// BitCast has every numeric type but float6.
fn types() -> impl Iterator<Item = ElementType> {
    numeric().filter(|ty| !matches!(ty.family(), Family::Float(_) if ty.bits() == 6))
}

fn sketch(from: ElementType, to: ElementType, elements: usize) -> Sketch {
    Sketch::new()
        .input("x", from, &[elements as i64])
        .node("BitCast", &["x"], &["y"], vec![int("to", to as i64)])
        .output("y", to, &[elements as i64])
}

#[test]
fn every_pair_of_one_width_keeps_its_bits() -> TractResult<()> {
    let mut pairs = 0;
    for from in types() {
        for to in types().filter(|to| to.bits() == from.bits()) {
            let codes = samples(from, 100);
            let proto = model(26, sketch(from, to, codes.len()).0);
            let model = tract_onnx_cast::onnx().model_for_proto_model(&proto)?.into_optimized()?;
            assert_eq!(output_element_types(&model)?, [to]);
            let x = tensor_of_codes(from, &codes).into_tvalue();
            let y = model.into_runnable()?.run(tvec!(x))?.remove(0);
            let is_bool = to == Bool;
            let kept = |code: &u64| if is_bool { u64::from(*code != 0) } else { *code };
            let want: Vec<u64> = codes.iter().map(kept).collect();
            assert_eq!(codes_of_tensor(to, &y), want, "{from} to {to}");
            pairs += 1;
        }
    }
    // 8 bits: 8 types; 16: 4; 32 and 64: 3; 4: 3; 2: 2.
    assert_eq!(pairs, 64 + 16 + 9 + 9 + 9 + 4);
    Ok(())
}

#[test]
fn what_it_does_not_have_is_refused() {
    let refused = |opset, from, to| refusal(&model(opset, sketch(from, to, 2).0));
    assert_eq!(
        refused(25, Int8, Uint8),
        "node `BitCast_y` (BitCast): needs opset 26, the model imports 25"
    );
    assert_eq!(
        refused(26, Int8, Uint16),
        "node `BitCast_y` (BitCast): input of type INT8 has 8 bits, and UINT16 has 16, the model imports 26"
    );
    assert_eq!(
        refused(28, Float, Float6E2M3),
        "node `BitCast_y`: attribute `to` is 27 (FLOAT6E2M3), which is no type of this operator (BitCast), the model \
         imports 28"
    );
    let without = Sketch::new().input("x", Int8, &[2]).node("BitCast", &["x"], &["y"], vec![]);
    assert_eq!(
        refusal(&model(26, without.output("y", Int8, &[2]).0)),
        "node `BitCast_y`: attribute `to` is missing (BitCast), the model imports 26"
    );
}
