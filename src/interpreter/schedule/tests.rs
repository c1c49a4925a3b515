//! What goes behind which node, and what a body hands over.

use onnx_cast_graph::graph_attribute;
use tract_onnx::pb::GraphProto;

use super::*;
use crate::passes::import;
use crate::passes::testing::{lines, read};

/// A graph of a text, whose `If` or `Loop` has these bodies. Constants called `large…` are of 40
/// MiB.
fn of_text(text: &str, bodies: &[(&str, GraphProto)]) -> GraphProto {
    let mut graph = read(text).graph.expect("a graph");
    for large in graph.initializer.iter_mut().filter(|held| held.name.starts_with("large")) {
        (large.dims, large.raw_data) = (vec![10 << 20], vec![]);
    }
    for node in graph.node.iter_mut().filter(|node| matches!(&*node.op_type, "If" | "Loop")) {
        let bodies = bodies.iter().map(|(name, body)| graph_attribute(name, body.clone()));
        node.attribute.extend(bodies);
    }
    graph
}

/// What goes, a line for each node: the main graph first, then its bodies.
fn dropped(graph: GraphProto) -> String {
    let mut model = read("");
    model.graph = Some(graph);
    let (graph, problems) = import(model).expect("a graph");
    assert_eq!(problems, []);
    let schedules = Schedules::of(&graph);
    let named = |values: &[ValueId]| {
        let mut names: Vec<&str> = values.iter().map(|id| &*graph.value(*id).name).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let mut lines = vec![];
    for body in graph.all_bodies(graph.main()) {
        let Schedule { steps, unused, handed } = schedules.of_body(body).expect("a schedule");
        for step in steps {
            lines.push(format!("{}: {}", graph.node(step.node).label(), named(&step.last_uses)));
        }
        if !unused.is_empty() {
            lines.push(format!("unused {}", named(unused)));
        }
        lines.push(format!("hands over {}", named(handed)));
    }
    self::lines(&lines.join("\n"))
}

const OTHER: &str = "r = Neg(x)
    out r FLOAT";

#[test]
fn constants_of_a_branch_go_behind_their_last_use_in_it() {
    let branch = "const v FLOAT 4
        const w FLOAT 4
        a = Add(x, v)
        b = Add(a, w)
        out b FLOAT";
    let branches = [("then_branch", of_text(branch, &[])), ("else_branch", of_text(OTHER, &[]))];
    let main = "in c BOOL
        in x FLOAT
        y = If(c)
        z = Neg(y)
        out z FLOAT";
    let wanted = "y: c x
        z: y
        hands over z
        a: v x
        b: a w
        hands over b
        r: x
        hands over r";
    assert_eq!(dropped(of_text(main, &branches)), lines(wanted));
}

#[test]
fn what_both_branches_take_goes_in_either_unless_it_is_needed_behind() {
    let branch = "a = Add(x, v)
        b = Add(a, w)
        out b FLOAT";
    let returns = "d = Mul(v, x)
        out v FLOAT";
    let branches = [("then_branch", of_text(branch, &[])), ("else_branch", of_text(returns, &[]))];
    let main = "in c BOOL
        in x FLOAT
        const v FLOAT 4
        const w FLOAT 4
        y = If(c)
        z = Add(y, w)
        out z FLOAT";
    // What the other branch returns is needed until its node has run.
    let wanted = "y: c v x
        z: w y
        hands over z
        a: v x
        b: a
        hands over b
        d: d x
        hands over";
    assert_eq!(dropped(of_text(main, &branches)), lines(wanted));
}

#[test]
fn a_loop_keeps_its_small_constants_until_it_has_run() {
    let inner = "const large_2 FLOAT 4
        e = Add(s, large_2)
        out e FLOAT";
    let inner = [("then_branch", of_text(inner, &[])), ("else_branch", of_text(inner, &[]))];
    let body = "in i INT64
        in go BOOL
        in s FLOAT
        const w FLOAT 4
        const large_1 FLOAT 4
        a = Add(s, w)
        b = Add(a, large_1)
        f = If(go)
        g = Add(b, f)
        h = Sum(g, large_0, v)
        out go BOOL
        out h FLOAT";
    let main = "in n INT64
        in x FLOAT
        const large_0 FLOAT 4
        const v FLOAT 4
        y = Loop(n, _, x)
        out y FLOAT";
    // One of 40 MiB stays with the small ones, the first.
    let wanted = "y: large_0 n v w x
        hands over y
        a:
        b: a large_1
        f: s
        g: b f
        h: g
        unused i
        hands over go h
        e: large_2
        hands over e
        e: large_2
        hands over e";
    let body = of_text(body, &inner);
    assert_eq!(dropped(of_text(main, &[("body", body)])), lines(wanted));
}
