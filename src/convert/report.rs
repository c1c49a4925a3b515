//! Pass: what stays as it is, for the report. It changes nothing in the graph.

use onnx_cast_graph::Graph;

use super::KeptNode;
use super::classes::points;
use super::context::Context;
use crate::error::Result;
use crate::onnx::cast_spec::Operator;
use crate::onnx::operators::behaviour::Behaviour;

/// Fills [`Context::report`] with the nodes that take or make values of a type that is converted,
/// and of which nothing is, nor is of the other type already: of these only scales and statistics
/// are left.
pub(super) fn report(graph: &mut Graph, context: &mut Context) -> Result<()> {
    for id in context.nodes(graph) {
        let node = graph.node(id);
        // Constants and casts are what their users take.
        let follows = Behaviour::of(node).makes_attributes || Operator::of(node).is_some();
        let values = node.inputs().iter().chain(node.outputs()).flatten();
        let mut types = values.filter_map(|value| context.types.get(*value));
        let is_converted = types.any(|ty| *ty == context.to());
        if (follows || is_converted) && !context.kept.contains(id) {
            continue;
        }
        let points = points(graph, id);
        let classes: Vec<usize> = points.filter_map(|point| context.classes.find(point)).collect();
        let converts = |class: &usize| context.classes.get(*class).converts;
        if classes.is_empty() || classes.iter().any(converts) {
            continue;
        }
        let fixed = classes.iter().find_map(|class| context.classes.get(*class).stays.clone());
        let why = context.kept.get(id).cloned().or(fixed);
        let why =
            why.unwrap_or_else(|| "between nodes that stay, where casts would be more".into());
        context.report.push(KeptNode::of(node, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use crate::cast::element_type::ElementType::{Double, Float16};
    use crate::convert::Options;
    use crate::convert::tests::written;
    use crate::passes::testing::read;

    #[test]
    fn statistics_of_what_is_converted_already_are_no_node_that_stays() {
        let model = "
            in x FLOAT16
            const g FLOAT16 1
            const m FLOAT 1
            y = BatchNormalization(x, g, g, m, m)
            out y FLOAT16";
        let (_, converted) = written(&read(model).encode_to_vec(), &Options::new(Float16));
        assert_eq!(converted.kept, []);
    }

    #[test]
    fn statistics_are_double_where_all_else_is() {
        let model = "
            in x FLOAT
            const g FLOAT 1
            const m FLOAT 1
            y = BatchNormalization(x, g, g, m, m)
            out y FLOAT";
        let (model, converted) = written(&read(model).encode_to_vec(), &Options::new(Double));
        assert_eq!(converted.kept, []);
        let graph = model.graph.expect("a graph");
        let types: Vec<i32> = graph.initializer.iter().map(|held| held.data_type).collect();
        assert_eq!(types, [Double as i32; 2]);
    }
}
