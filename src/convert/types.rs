//! Pass: the element types of all values. It changes nothing in the graph.
//!
//! What contradicts itself is collected: such a model is mended before it is converted.

use onnx_cast_graph::{Graph, NodeId, NodeView, ValueId};

use super::context::Context;
use super::sequences;
use crate::cast::element_type::ElementType;
use crate::onnx::declared_shapes::element_type;
use crate::onnx::operators::schema::{self, ParameterType};
use crate::passes::facts::value_type::output_declarations;
use crate::typed::inference::{self, KnownTypes, Visitor};

/// Fills [`Context::types`], and what goes with them.
pub(super) fn infer(graph: &mut Graph, context: &mut Context) {
    let mut found = Contradictions(vec![]);
    (context.types, context.mixed) = inference::infer(graph, &context.functions, &mut found);
    context.contradictions = found.0;
}

/// What contradicts itself in a model's types.
struct Contradictions(Vec<String>);

impl Visitor for Contradictions {
    /// Whether inputs of one type variable have one type.
    fn node(&mut self, known: &mut KnownTypes, id: NodeId) {
        let (node, inputs) = (known.graph.node(id), known.inputs(id));
        let schema = schema::schema(&node.op_type, node.opset).filter(|_| node.is_onnx());
        let Some(schema) = schema else { return };
        for (place, ty) in inputs.iter().enumerate() {
            let (Some(ty), Some(parameter)) = (ty, schema.input(place)) else { continue };
            let wanted = match parameter.ty {
                ParameterType::Fixed(fixed) => fixed,
                ParameterType::Variable(name) if schema.binds(place, name) => {
                    schema.bound(name, &inputs)
                }
                ParameterType::Variable(_) => None,
            };
            if let Some(wanted) = wanted.filter(|wanted| wanted != ty) {
                let label = node.label();
                let problem =
                    format!("node `{label}` ({}) takes {ty} beside {wanted}", node.op_type);
                self.0.push(problem);
            }
        }
    }

    fn made(&self, known: &KnownTypes, value: ValueId) -> Option<ElementType> {
        sequences::made(known, value)
    }

    /// Holds what is made against what is declared.
    fn value(
        &mut self,
        known: &mut KnownTypes,
        value: ValueId,
        made: Option<ElementType>,
    ) -> Option<ElementType> {
        let held = known.graph.value(value);
        let mut types: Vec<ElementType> = made.into_iter().collect();
        types.extend(element_type(held.declared.as_ref()));
        types
            .extend(output_declarations(known.graph, value).filter_map(|(_, ty)| element_type(ty)));
        let first = types.first().copied()?;
        if let Some(other) = types.iter().find(|ty| **ty != first) {
            let name = &held.name;
            self.0.push(format!("value `{name}` is {first}, and declared {other}"));
        }
        Some(first)
    }
}
