//! `DFT` of any length along any axis, computed in DOUBLE; its inverse of FLOATs in FLOAT, as
//! ONNX's own vectors are.
//!
//! tract neither pads nor cuts the axis to another length, takes the second axis where opset 20
//! means the last but one, and adds up FLOATs (tract-onnx, `ops/fft.rs`).

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::{Gather, Pad, PadMode, Slice};
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::fft::Fft;
use tract_onnx::tract_core::ops::math::mul;
use tract_onnx::tract_hir::internal::*;

use crate::onnx::node::{from_front, node_name};
use crate::ops::fixes::arithmetic::quotient::Quotient;
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::{Wired, constants, refused, unplanned};
use crate::ops::host::integers::dims;
use crate::ops::host::stock::Built;

const DFT: &str = "DFT";

/// Builds it of a node.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let opset = context.onnx_operator_set_version;
    let flag =
        |name: &str| -> TractResult<bool> { Ok(node.get_attr_opt::<i64>(name)?.unwrap_or(0) != 0) };
    let mut inputs = optional_inputs(node).skip(1);
    let length = inputs.next().flatten();
    let axis = match inputs.next().flatten() {
        Some(input) => AxisSource::Input(input),
        None if opset < 20 => AxisSource::Number(node.get_attr_opt("axis")?.unwrap_or(1)),
        None => AxisSource::Number(-2),
    };
    let (inverse, onesided) = (flag("inverse")?, flag("onesided")?);
    let (node, opset) = (node_name(node), imported(node, opset));
    let transform = Transform { node, opset, inverse, onesided, length, axis };
    Ok((expand(transform), vec![]))
}

/// Where the axis is said.
#[derive(Debug, Clone, Copy)]
enum AxisSource {
    Number(i64),
    Input(usize),
}

#[derive(Debug, Clone)]
struct Transform {
    /// For messages, as the version of the default domain.
    node: String,
    opset: i64,
    inverse: bool,
    onesided: bool,
    /// The input that says how long the signal is.
    length: Option<usize>,
    axis: AxisSource,
}

/// Along which axis a node transforms a shape, and how many places are transformed.
struct Along {
    axis: usize,
    length: TDim,
}

impl Transform {
    fn error(&self, problem: impl std::fmt::Display) -> TractError {
        let problem = format!("{problem}, the model imports {}", self.opset);
        refused(&self.node, DFT, problem).into()
    }

    /// Whether the input is half of a spectrum, of which the signal is real.
    fn is_of_half(&self) -> bool {
        self.inverse && self.onesided
    }

    /// What is known of the inputs, or nothing where one that matters is no constant.
    fn along(&self, shape: &[TDim], known: &[Option<Arc<Tensor>>]) -> TractResult<Option<Along>> {
        let number = |input: usize| -> TractResult<Option<TDim>> {
            let Some(tensor) = known.get(input).and_then(Option::as_ref) else { return Ok(None) };
            Ok(dims(tensor)?.first().cloned())
        };
        let named = match self.axis {
            AxisSource::Number(axis) => Some(axis),
            AxisSource::Input(input) => number(input)?.and_then(|axis| axis.as_i64()),
        };
        let Some(named) = named else { return Ok(None) };
        let rank = shape.len();
        let axis = from_front(named, rank).filter(|axis| axis + 1 < rank);
        let Some((axis, size)) = axis.and_then(|axis| Some((axis, shape.get(axis)?))) else {
            return Err(self.error(format!("has the axis {named} of {rank}")));
        };
        let length = match self.length {
            Some(input) => number(input)?,
            None if self.is_of_half() => Some((size.clone() - 1) * 2),
            None => Some(size.clone()),
        };
        Ok(length.map(|length| Along { axis, length }))
    }

    /// How many places the output has along the axis.
    fn made(&self, along: &Along) -> TDim {
        if self.onesided && !self.inverse {
            along.length.clone() / 2 + 1
        } else {
            along.length.clone()
        }
    }
}

impl Expansion for Transform {
    fn name(&self) -> StaticName {
        DFT.into()
    }

    rules!(self, |solver, inputs, outputs| {
        let axes = usize::from(matches!(self.axis, AxisSource::Input(_)));
        check_input_arity(inputs, 1 + usize::from(self.length.is_some()) + axes)?;
        check_output_arity(outputs, 1)?;
        let ([data, others @ ..], [output]) = (inputs, outputs) else { return Ok(()) };
        solver.equals(&data.datum_type, &output.datum_type)?;
        solver.equals(&data.rank, &output.rank)?;
        solver.given(&data.shape, move |solver, shape| {
            solver.given_all(others.iter().map(|input| &input.value), move |solver, values| {
                let known: Vec<_> =
                    [None].into_iter().chain(values.into_iter().map(Some)).collect();
                let Some(along) = self.along(&shape, &known)? else { return Ok(()) };
                let mut made = shape.clone();
                if let Some(size) = made.get_mut(along.axis) {
                    *size = self.made(&along);
                }
                if let Some(last) = made.last_mut() {
                    *last = if self.is_of_half() { 1 } else { 2 }.to_dim();
                }
                solver.equals(&output.shape, made)
            })
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let known = constants(model, inputs)?;
        let fact = model.outlet_fact(*inputs.first().context("data to transform")?)?.clone();
        let Some(along) = self.along(&fact.shape, &known)? else {
            bail!(unplanned(&self.node, DFT, "has a length or an axis that is no constant"));
        };
        let name = |part: &str| format!("{prefix}.{part}");
        let data: TVec<OutletId> = inputs.iter().take(1).copied().collect();
        if self.is_of_half() && along.length == 0.to_dim() {
            let none = Slice::new(along.axis, 0, 0);
            let none = model.wire_node(name("none"), none, &data)?;
            return model.wire_node(prefix, Slice::new(fact.rank() - 1, 0, 1), &none);
        }
        let is_single = self.inverse && fact.datum_type == DatumType::F32;
        let ty = if is_single { DatumType::F32 } else { DatumType::F64 };
        let wide = model.wire_node(name("wide"), cast(ty), &data)?;
        let mut wires = self.wire_places(prefix, model, wide, &along)?;
        wires = model.wire_node(
            name("fft"),
            Fft { axis: along.axis, inverse: self.inverse },
            &wires,
        )?;
        if self.inverse {
            let length = tensor0(along.length.clone()).broadcast_into_rank(fact.rank())?;
            let length = model.add_const(name("length"), length)?;
            let length = model.wire_node(name("divisor"), cast(ty), &[length])?;
            let operands = [&*wires, &*length].concat();
            let quotient = TypedBinOp(Box::new(Quotient), None);
            wires = model.wire_node(name("quotient"), quotient, &operands)?;
        }
        if self.is_of_half() {
            wires = model.wire_node(name("real"), Slice::new(fact.rank() - 1, 0, 1), &wires)?;
        } else if self.onesided {
            let half = Slice::new(along.axis, 0, self.made(&along));
            wires = model.wire_node(name("half"), half, &wires)?;
        }
        model.wire_node(prefix, cast(fact.datum_type), &wires)
    }
}

impl Transform {
    /// Wires complex numbers, as many as are to be transformed.
    fn wire_places(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        mut wires: TVec<OutletId>,
        along: &Along,
    ) -> Wired {
        let shape = model.outlet_fact(*wires.first().context("data")?)?.shape.to_tvec();
        let (last, axis) = (shape.len() - 1, along.axis);
        let zeros = |axis: usize, count: usize| {
            let mut pads = vec![(0, 0); shape.len()];
            if let Some(pad) = pads.get_mut(axis) {
                pad.1 = count;
            }
            Pad { mode: PadMode::Constant(rctensor0(0f64)), pads }
        };
        match shape.last().and_then(|parts| parts.as_i64()) {
            Some(1) => {
                wires = model.wire_node(format!("{prefix}.complex"), zeros(last, 1), &wires)?;
            }
            Some(2) => {}
            _ => bail!(
                self.error(format!("has an input of {shape:?}, not of numbers of 1 or 2 parts"))
            ),
        }
        let size = shape.get(axis).context("an axis of the data")?;
        let is_given = self.length.is_some() || self.is_of_half();
        if !is_given {
            return Ok(wires);
        }
        let known = (size.to_usize().ok(), along.length.to_usize().ok());
        let (Some(size), Some(length)) = known else {
            bail!(unplanned(&self.node, DFT, "has a length, and an axis of an open size"));
        };
        let places = if self.is_of_half() { length / 2 + 1 } else { length };
        if places < size {
            let cut = Slice::new(axis, 0, places);
            wires = model.wire_node(format!("{prefix}.cut"), cut, &wires)?;
        } else if places > size {
            let padded = zeros(axis, places - size);
            wires = model.wire_node(format!("{prefix}.padded"), padded, &wires)?;
        }
        if self.is_of_half() {
            return wire_whole(prefix, model, &wires, axis, length);
        }
        Ok(wires)
    }
}

/// Wires the whole spectrum of a real signal, of which there is the first half: the others are the
/// conjugates of these, from the end on.
fn wire_whole(
    prefix: &str,
    model: &mut TypedModel,
    half: &[OutletId],
    axis: usize,
    length: usize,
) -> Wired {
    let fact = model.outlet_fact(*half.first().context("data")?)?;
    let (rank, ty) = (fact.rank(), fact.datum_type);
    let is_given = |place: usize| place <= length / 2;
    let mirror = |place: usize| if is_given(place) { place } else { length - place };
    let places: Vec<i64> =
        (0..length).map(|place| i64::try_from(mirror(place))).collect::<Result<_, _>>()?;
    let places = model.add_const(format!("{prefix}.mirror"), tensor1(&places))?;
    let gather = Gather { axis, output_type: None };
    let operands = [half, &[places]].concat();
    let mirrored = model.wire_node(format!("{prefix}.mirrored"), gather, &operands)?;
    let sign = |place: usize| if is_given(place) { 1.0 } else { -1.0 };
    let signs: Vec<f64> = (0..length).flat_map(|place| [1.0, sign(place)]).collect();
    let shape: TVec<usize> = (0..rank)
        .map(|at| {
            if at == axis {
                length
            } else if at + 1 == rank {
                2
            } else {
                1
            }
        })
        .collect();
    let signs = Tensor::from_shape(&shape, &signs)?.cast_to_dt(ty)?.into_owned();
    let signs = model.add_const(format!("{prefix}.signs"), signs)?;
    let operands = [&*mirrored, &[signs]].concat();
    model.wire_node(format!("{prefix}.whole"), mul(), &operands)
}
