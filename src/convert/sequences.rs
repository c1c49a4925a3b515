//! Sequences: the type of their elements is that of the tensors that they are made of and taken
//! apart into. No operator casts a sequence, so it has one type wherever it goes.

use onnx_cast_graph::{Graph, Node, NodeView, Table, Use, ValueId};

use super::classes::Point;
use super::context::Context;
use crate::cast::element_type::ElementType;
use crate::onnx::operators::schema::{self, ParameterType, Schema};
pub(super) use crate::typed::sequences::{made, moves};

/// Whether what a node takes or makes at such a place may be of a type, or have elements of it.
pub(super) fn allows(node: &Node, schema: &Schema, ty: ParameterType, to: ElementType) -> bool {
    if !moves(node) || !schema.is_sequence(ty) {
        return schema.allows(ty, to);
    }
    let construct = schema::schema("SequenceConstruct", node.opset);
    construct.is_some_and(|schema| schema.input(0).is_some_and(|held| schema.allows(held.ty, to)))
}

/// Has each sequence be one class where it is made and taken; `links` are values that are the same
/// inside of a body, or of a function, and outside.
pub(super) fn join(graph: &Graph, context: &mut Context, mut links: Vec<(ValueId, ValueId)>) {
    let mut found: Table<ValueId, ()> = Table::default();
    for id in context.nodes(graph) {
        let node = graph.node(id);
        if let (true, Some(taken), Some(made)) =
            (node.is("Identity"), node.input(0), node.output(0))
        {
            links.push((taken, made));
        }
        let Some(schema) = schema::schema(node.op_type(), node.opset).filter(|_| moves(node))
        else {
            continue;
        };
        let takes = |place| schema.input(place).is_some_and(|held| schema.is_sequence(held.ty));
        let makes = |place| schema.output(place).is_some_and(|held| schema.is_sequence(held.ty));
        let taken = (0..node.input_places()).filter(|place| takes(*place));
        let made = (0..node.output_places()).filter(|place| makes(*place));
        let taken = taken.filter_map(|place| node.input(place));
        taken.chain(made.filter_map(|place| node.output(place))).for_each(|value| {
            found.insert(value, ());
        });
    }
    let mut linked: Table<ValueId, Vec<ValueId>> = Table::default();
    for (a, b) in links {
        for (from, to) in [(a, b), (b, a)] {
            match linked.get_mut(from) {
                Some(others) => others.push(to),
                None => drop(linked.insert(from, vec![to])),
            }
        }
    }
    let mut open: Vec<ValueId> = found.iter().map(|(value, ())| value).collect();
    while let Some(value) = open.pop() {
        for other in linked.get(value).into_iter().flatten() {
            if !found.contains(*other) {
                found.insert(*other, ());
                open.push(*other);
            }
        }
    }
    for value in found.iter().map(|(value, ())| value) {
        context.sequences.push(value);
        for used in graph.value(value).uses() {
            if context.classes.find(Point::Taken(used)).is_some() {
                context.classes.join(Point::Made(value), Point::Taken(used));
            }
        }
    }
}

/// The value at a place.
pub(super) fn value(graph: &Graph, point: Point) -> Option<ValueId> {
    match point {
        Point::Made(value) => Some(value),
        Point::Taken(Use::Node(id, place)) => graph.node(id).input(place),
        Point::Taken(Use::Output(body, place)) => {
            graph.body(body).outputs().get(place).map(|output| output.value)
        }
    }
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::graph_attribute;
    use prost::Message;

    use crate::cast::element_type::ElementType::{BFloat16, Float16};
    use crate::convert::Options;
    use crate::convert::tests::{check, printed, to, written};
    use crate::passes::testing::{lines, read, with_function};

    const MODEL: &str = "
        in x FLOAT
        const i INT64 1
        const w FLOAT 3
        a = Mul(x, w)
        e = SequenceEmpty()
        f = SequenceInsert(e, a)
        g = Identity(f)
        s = SequenceInsert(g, w)
        n = SequenceLength(s)
        b = SequenceAt(s, i)
        c = SplitToSequence(b)
        d = ConcatFromSequence<axis=0>(c)
        y = Exp(d)
        out y FLOAT
        out n INT64";

    #[test]
    fn what_goes_through_sequences_is_converted() {
        let expected = "
            const i INT64
            const w FLOAT16
            x_FLOAT16 = Cast(x) to FLOAT16
            a = Mul(x_FLOAT16, w)
            e = SequenceEmpty() to FLOAT16
            f = SequenceInsert(e, a)
            g = Identity(f)
            s = SequenceInsert(g, w)
            n = SequenceLength(s)
            b = SequenceAt(s, i)
            c = SplitToSequence(b)
            d = ConcatFromSequence(c)
            y_FLOAT16 = Exp(d)
            y = Cast(y_FLOAT16) to FLOAT
            out y FLOAT
            out n INT64";
        assert_eq!(check(MODEL, &to(Float16), expected).kept, []);
    }

    #[test]
    fn a_sequence_of_which_one_tensor_stays_does() {
        let model = "
            in x FLOAT
            in k FLOAT
            const i INT64 1
            a = Neg(x)
            s = SequenceConstruct(a, k)
            b = SequenceAt(s, i)
            y = Exp(b)
            out y FLOAT";
        let expected = "
            const i INT64
            x_FLOAT16 = Cast(x) to FLOAT16
            a = Neg(x_FLOAT16)
            a_FLOAT = Cast(a) to FLOAT
            s = SequenceConstruct(a_FLOAT, k)
            b = SequenceAt(s, i)
            b_FLOAT16 = Cast(b) to FLOAT16
            y_FLOAT16 = Exp(b_FLOAT16)
            y = Cast(y_FLOAT16) to FLOAT
            out y FLOAT";
        let options = Options { keep: vec!["s".into()], ..to(Float16) };
        check(model, &options, expected);
    }

    #[test]
    fn what_a_function_takes_of_a_sequence_is_known_where_it_is_called() {
        let model = "
            in x FLOAT
            m = Neg(x)
            n = my::F(m)
            y = Exp(n)
            out y FLOAT";
        let body = "s = SequenceConstruct(a, a)\nb = ConcatFromSequence<axis=0>(s)";
        let model = with_function(model, body, "b");
        let (proto, converted) = written(&model.encode_to_vec(), &to(Float16));
        let expected = "
            x_FLOAT16 = Cast(x) to FLOAT16
            m = Neg(x_FLOAT16)
            n = F(m)
            y_FLOAT16 = Exp(n)
            y = Cast(y_FLOAT16) to FLOAT
            out y FLOAT";
        assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(expected));
        assert_eq!(converted.kept, []);
    }

    #[test]
    fn a_sequence_that_a_body_of_unknown_meaning_takes_stays() {
        let mut model = read(
            "
            in x FLOAT
            m = Neg(x)
            s = SequenceConstruct(m, m)
            t = SequenceMap(s)
            y = ConcatFromSequence<axis=0>(t)
            out y FLOAT",
        );
        let body = read("in a FLOAT\nb = Exp(a)\nout b FLOAT").graph.expect("a graph");
        let body = graph_attribute("body", body);
        model.graph.as_mut().expect("a graph").node[2].attribute.push(body);
        let (proto, _) = written(&model.encode_to_vec(), &to(Float16));
        let expected = "
            x_FLOAT16 = Cast(x) to FLOAT16
            m = Neg(x_FLOAT16)
            m_FLOAT = Cast(m) to FLOAT
            s = SequenceConstruct(m_FLOAT, m_FLOAT)
            t = SequenceMap(s)
            g: a_FLOAT16 = Cast(a) to FLOAT16
            g: b_FLOAT16 = Exp(a_FLOAT16)
            g: b = Cast(b_FLOAT16) to FLOAT
            g: out b FLOAT
            y = ConcatFromSequence(t)
            out y FLOAT";
        assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(expected));
    }

    #[test]
    fn sequences_take_no_bfloat16() {
        let model = "
            in x FLOAT
            a = Neg(x)
            s = SequenceConstruct(a, a)
            y = ConcatFromSequence<axis=0>(s)
            out y FLOAT";
        let expected = "
            x_BFLOAT16 = Cast(x) to BFLOAT16
            a = Neg(x_BFLOAT16)
            a_FLOAT = Cast(a) to FLOAT
            s = SequenceConstruct(a_FLOAT, a_FLOAT)
            y = ConcatFromSequence(s)
            out y FLOAT";
        let converted = check(model, &to(BFloat16), expected);
        assert_eq!(converted.kept.len(), 2);
    }
}
