//! Our op in NNEF, tract's own file format: a registry like `tract-onnx-opl`'s, to be added the
//! same way.
//!
//! ```
//! use tract_nnef::prelude::*;
//! use tract_onnx_cast::interop::WithOnnxCast;
//!
//! let nnef = tract_nnef::nnef().with_onnx_cast();
//! # let _: Nnef = nnef;
//! # use tract_nnef::framework::Nnef;
//! ```
//!
//! The registry also sees to what tract writes wrong of its own: integer constants beyond 32 bits
//! and floats that are no numbers, which it would put into the text, and the registries that only
//! the body of a `Scan` needs.
//!
//! A cast is written as one invocation, its types by ONNX's names; the attributes that have their
//! defaults may be left out:
//!
//! ```text
//! y = tract_onnx_cast(x, from = "FLOAT", to = "FLOAT8E4M3FN",
//!                     saturate = true, round_mode = "up", concrete = false);
//! ```

use onnx_cast_graph::counted;
use tract_nnef::internal::*;
use tract_nnef::ser::tdims;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::scan::Scan;

use crate::cast::element_type::ElementType;
use crate::cast::rules::{RoundMode, Rules};
use crate::ops::cast::op::OnnxCast;
use crate::ops::fixes::places::expand::ExpandAsDeclared;
use crate::ops::weights::filed::Filed;
use crate::plug::nnef_operators;

/// The registry's name, and the cast's.
const NAME: &str = "tract_onnx_cast";

/// An `Expand` to dimensions that are data, and the shape that the ONNX model declared.
const EXPAND: &str = "tract_onnx_cast_expand";

/// Adds the registry to an NNEF reader and writer.
pub trait WithOnnxCast {
    /// Adds [`onnx_cast_registry`].
    fn enable_onnx_cast(&mut self);
    /// As [`WithOnnxCast::enable_onnx_cast`], by value.
    fn with_onnx_cast(self) -> Self;
}

impl WithOnnxCast for tract_nnef::framework::Nnef {
    fn enable_onnx_cast(&mut self) {
        // Before tract's own, so that constants and scans come here first.
        self.registries.insert(0, onnx_cast_registry());
    }

    fn with_onnx_cast(mut self) -> Self {
        self.enable_onnx_cast();
        self
    }
}

/// A registry that writes and reads [`OnnxCast`].
///
/// # Errors
///
/// Reading a file fails where a cast has an unknown element type, an unknown argument or an input
/// that is no tensor of its `from` type; the message has the node's name.
pub fn onnx_cast_registry() -> Registry {
    let mut registry = Registry::new(NAME)
        .with_doc(
            "Extension `tract_onnx_cast` adds ONNX's `Cast` between all of its element types.",
        )
        .with_doc("")
        .with_doc("Add `extension tract_registry tract_onnx_cast` to `graph.nnef`");
    registry.register_dumper(dump);
    registry.register_dumper(dump_constant);
    registry.register_dumper(dump_filed);
    registry.register_dumper(dump_scan);
    registry.register_primitive(
        NAME,
        &parameters(),
        &[("output", TypeName::Scalar.tensor())],
        load,
    );
    nnef_operators::register(&mut registry);
    registry.register_dumper(dump_expand);
    registry.register_primitive(
        EXPAND,
        &[
            TypeName::Scalar.tensor().named("input"),
            TypeName::Scalar.tensor().named("dims"),
            TypeName::Integer.array().named("shape"),
        ],
        &[("output", TypeName::Scalar.tensor())],
        load_expand,
    );
    registry
}

fn parameters() -> Vec<Parameter> {
    vec![
        TypeName::Scalar.tensor().named("input"),
        TypeName::String.named("from"),
        TypeName::String.named("to"),
        TypeName::Logical.named("saturate").default(true),
        TypeName::String.named("round_mode").default(RoundMode::default().name()),
        TypeName::Logical.named("concrete").default(false),
    ]
}

fn dump(ast: &mut IntoAst, node: &TypedNode, op: &OnnxCast) -> TractResult<Option<Arc<RValue>>> {
    let input = node.inputs.first().and_then(|input| ast.mapping.get(input));
    let input = input.with_context(|| format!("node `{}` has no input", node.name))?.clone();
    let conversion = op.conversion();
    let Rules { saturate, round_mode } = conversion.rules();
    let arguments = [
        ("from", string(conversion.source().name())),
        ("to", string(conversion.target().name())),
        ("saturate", logical(saturate)),
        ("round_mode", string(round_mode.name())),
        ("concrete", logical(op.resolves_symbols())),
    ];
    Ok(Some(invocation(NAME, &[input], &arguments)))
}

fn dump_expand(
    ast: &mut IntoAst,
    node: &TypedNode,
    op: &ExpandAsDeclared,
) -> TractResult<Option<Arc<RValue>>> {
    let inputs = node.inputs.iter().map(|input| ast.mapping.get(input).cloned());
    let inputs: Option<Vec<_>> = inputs.collect();
    let inputs = inputs.with_context(|| format!("node `{}` has no input", node.name))?;
    Ok(Some(invocation(EXPAND, &inputs, &[("shape", tdims(&op.shape))])))
}

fn load_expand(builder: &mut ModelBuilder, invocation: &ResolvedInvocation) -> TractResult<Value> {
    let node = builder.generate_node_name();
    let input: OutletId = invocation.named_arg_as(builder, "input")?;
    let dims: OutletId = invocation.named_arg_as(builder, "dims")?;
    let shape: TVec<TDim> =
        builder.allowing_new_symbols(|builder| invocation.named_arg_as(builder, "shape"))?;
    builder.wire(ExpandAsDeclared { node: node.into(), shape: shape.into() }, &[input, dims])
}

/// Puts a constant into a file of its own where tract would write digits that it reads as another
/// number.
fn dump_constant(
    ast: &mut IntoAst,
    node: &TypedNode,
    op: &Const,
) -> TractResult<Option<Arc<RValue>>> {
    if op.val().is_plain_ram() && is_misread(op.val())? {
        ast.konst_variable(&node.name, op.val()).map(Some)
    } else {
        Ok(None)
    }
}

/// Reads weights that are still in the model's file.
fn dump_filed(ast: &mut IntoAst, node: &TypedNode, op: &Filed) -> TractResult<Option<Arc<RValue>>> {
    ast.konst_variable(&node.name, &op.read()?).map(Some)
}

/// Whether tract's text of a constant is read back as something else: digits pass through 32 bits,
/// and there are none for infinities, NaN and a negative zero.
fn is_misread(tensor: &Tensor) -> TractResult<bool> {
    let view = tensor.try_as_plain_ram()?;
    let odd_float = |x: f32| !x.is_finite() || (x == 0.0 && x.is_sign_negative());
    Ok(match tensor.datum_type() {
        DatumType::I64 => view.as_slice::<i64>()?.iter().any(|i| i32::try_from(*i).is_err()),
        DatumType::U64 => view.as_slice::<u64>()?.iter().any(|i| i32::try_from(*i).is_err()),
        DatumType::U32 => view.as_slice::<u32>()?.iter().any(|i| i32::try_from(*i).is_err()),
        DatumType::F32 => view.as_slice::<f32>()?.iter().any(|x| odd_float(*x)),
        DatumType::F16 => view.as_slice::<f16>()?.iter().any(|x| odd_float(x.to_f32())),
        _ => false,
    })
}

/// Has a `Scan` with casts in its body written by tract, and this registry named in the file, which
/// tract does only for the operators outside of bodies.
fn dump_scan(ast: &mut IntoAst, node: &TypedNode, op: &Scan) -> TractResult<Option<Arc<RValue>>> {
    if !has_casts(&op.body) {
        return Ok(None);
    }
    let framework = ast.framework;
    for registry in framework.registries.iter().filter(|registry| registry.id.0 != NAME) {
        if let Some(written) = registry.serialize(ast, node)? {
            return Ok(Some(written));
        }
    }
    Ok(None)
}

fn has_casts(body: &TypedModel) -> bool {
    body.nodes().iter().any(|node| {
        node.op_is::<OnnxCast>()
            || node.op_is::<ExpandAsDeclared>()
            || nnef_operators::is_ours(&*node.op)
            || node.op_as::<Scan>().is_some_and(|scan| has_casts(&scan.body))
    })
}

fn load(builder: &mut ModelBuilder, invocation: &ResolvedInvocation) -> TractResult<Value> {
    let node = builder.generate_node_name();
    read(builder, invocation, &node).with_context(|| format!("node `{node}` ({NAME})"))
}

fn read(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
    node: &str,
) -> TractResult<Value> {
    let known = parameters();
    let arguments = &invocation.invocation.arguments;
    let named = arguments.iter().filter_map(|argument| argument.id.as_ref());
    if let Some(unknown) = named.into_iter().find(|id| !known.iter().any(|known| known.id == **id))
    {
        bail!("has no argument `{}`", unknown.0);
    }
    ensure!(
        arguments.len() <= known.len(),
        "has {}, not {}",
        counted(arguments.len(), "argument"),
        known.len()
    );
    let input: OutletId = invocation.named_arg_as(builder, "input")?;
    let mut element_type = |name: &str| -> TractResult<ElementType> {
        let text: String = invocation.named_arg_as(builder, name)?;
        let ty = ElementType::from_name(&text);
        ty.with_context(|| format!("argument `{name}`: {text:?} is no element type of Cast"))
    };
    let (from, to) = (element_type("from")?, element_type("to")?);
    let saturate = invocation.named_arg_as(builder, "saturate")?;
    let mode: String = invocation.named_arg_as(builder, "round_mode")?;
    let round_mode = mode.parse().ok();
    let round_mode =
        round_mode.with_context(|| format!("argument `round_mode`: {mode:?} is no rounding"))?;
    let resolves_symbols = invocation.named_arg_as(builder, "concrete")?;
    let input_type = builder.model.outlet_fact(input)?.datum_type;
    let is_symbolic = input_type == DatumType::TDim && from == ElementType::Int64;
    ensure!(
        input_type == from.datum_type() || is_symbolic,
        "its input is {input_type:?}, and {from} is held in {:?}",
        from.datum_type()
    );
    let op = OnnxCast::new(node, from, to, Rules { saturate, round_mode })
        .resolving_symbols(resolves_symbols)
        .beside_casts_of(&builder.model);
    builder.wire(op, &[input])
}
