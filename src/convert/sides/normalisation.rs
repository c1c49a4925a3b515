//! Normalisations over layers that are written out: they have one type with what they normalise.
//!
//! ONNX Runtime (1.32, `LayerNormFusion`) makes one node of `(x - mean(x)) / sqrt(...) * scale +
//! bias`, looks through a `Cast` before and behind the quotient, and refuses the model then if the
//! scale is not of the type of `x` before that `Cast`.

use onnx_cast_graph::{Graph, Node, NodeId, NodeView, Use, ValueId};

use crate::convert::classes::{Point, points};
use crate::convert::context::Context;

const BEHIND: &str = "it normalises what stays";
const BEFORE: &str = "the scale of what normalises it stays";

/// One of them.
struct Normalisation {
    /// What is normalised.
    x: ValueId,
    /// From the mean to the quotient.
    core: Vec<NodeId>,
    /// The product with the scale, and the sum with the bias.
    scaling: Vec<NodeId>,
}

/// Has each stay where what it normalises does, and the other way round where its scale stays.
pub(super) fn settle(graph: &Graph, context: &mut Context) {
    let nodes = context.nodes(graph);
    let found: Vec<_> = nodes.into_iter().filter_map(|id| normalisation(graph, id)).collect();
    let mut is_settled = false;
    while !is_settled {
        is_settled = true;
        for Normalisation { x, core, scaling } in &found {
            let x = Point::Made(*x);
            let all: Vec<Point> =
                core.iter().chain(scaling).flat_map(|id| points(graph, *id)).collect();
            let mut scaled = scaling.iter().flat_map(|id| points(graph, *id));
            let (x_stays, scale_stays) = (stays(context, x), scaled.any(|p| stays(context, p)));
            if !x_stays && !scale_stays {
                context.classes.compute(x);
                continue;
            }
            for (point, why) in all.into_iter().map(|point| (point, BEHIND)).chain([(x, BEFORE)]) {
                if context.classes.find(point).is_some() && !stays(context, point) {
                    context.classes.fix(point, why);
                    is_settled = false;
                }
            }
        }
    }
}

fn stays(context: &Context, point: Point) -> bool {
    context.classes.find(point).is_some_and(|class| context.classes.get(class).stays.is_some())
}

/// That of which a node is the quotient.
fn normalisation(graph: &Graph, quotient: NodeId) -> Option<Normalisation> {
    let node = graph.node(quotient);
    let [centred, root] = [node.input(0)?, node.input(1)?];
    let difference = made_by(graph, centred, "Sub").filter(|_| node.is("Div"))?;
    let x = graph.node(difference).input(0)?;
    let mean = made_by(graph, graph.node(difference).input(1)?, "ReduceMean")?;
    if graph.node(mean).input(0) != Some(x) {
        return None;
    }
    let root = made_by(graph, root, "Sqrt")?;
    let mut core = vec![mean, difference, quotient, root];
    // The variance: `mean(centred²) + epsilon`.
    let maker = |value: ValueId| graph.maker(value).filter(|id| !graph.node(*id).is("Constant"));
    let mut next = graph.node(root).input(0);
    while let Some(id) = next.filter(|value| *value != x).and_then(maker) {
        if core.contains(&id) {
            break;
        }
        core.push(id);
        next = graph.node(id).inputs().iter().flatten().copied().find(|v| maker(*v).is_some());
        if core.len() > LONGEST {
            return None;
        }
    }
    let product = taker(graph, node, "Mul")?;
    let sum = taker(graph, graph.node(product), "Add");
    Some(Normalisation { x, core, scaling: [product].into_iter().chain(sum).collect() })
}

/// The most nodes that there are up to the quotient: a `Cast` of the model's own may be among
/// them.
const LONGEST: usize = 12;

fn made_by(graph: &Graph, value: ValueId, op: &str) -> Option<NodeId> {
    graph.maker(value).filter(|id| graph.node(*id).is(op))
}

/// The one node of an operator that takes what a node makes.
fn taker(graph: &Graph, node: &Node, op: &str) -> Option<NodeId> {
    let uses = graph.value(node.output(0)?).uses();
    uses.filter_map(|used| match used {
        Use::Node(id, _) => Some(id),
        Use::Output(..) => None,
    })
    .find(|id| graph.node(*id).is(op))
}

#[cfg(test)]
mod tests {
    use crate::cast::element_type::ElementType::Float16;
    use crate::convert::Options;
    use crate::convert::tests::check;

    const NORM: &str = "
        in x FLOAT
        const two FLOAT 1
        const e FLOAT 1
        const g FLOAT 3
        h = Exp(x)
        m = ReduceMean(h)
        d = Sub(h, m)
        p = Pow(d, two)
        v = ReduceMean(p)
        w = Add(v, e)
        s = Sqrt(w)
        n = Div(d, s)
        k = Mul(n, g)
        y = Neg(k)
        out y FLOAT";

    fn keeping(names: &[&str]) -> Options {
        let keep = names.iter().map(|name| (*name).to_owned()).collect();
        Options { keep, ..Options::new(Float16) }
    }

    fn kept(names: &[&str], text: &str, expected: &str) -> Vec<String> {
        let converted = check(text, &keeping(names), expected);
        converted.kept.into_iter().map(|kept| kept.why).collect()
    }

    #[test]
    fn one_stays_with_what_it_normalises() {
        let expected = "
            const two FLOAT
            const e FLOAT
            const g FLOAT
            h = Exp(x)
            m = ReduceMean(h)
            d = Sub(h, m)
            p = Pow(d, two)
            v = ReduceMean(p)
            w = Add(v, e)
            s = Sqrt(w)
            n = Div(d, s)
            k = Mul(n, g)
            k_FLOAT16 = Cast(k) to FLOAT16
            y_FLOAT16 = Neg(k_FLOAT16)
            y = Cast(y_FLOAT16) to FLOAT
            out y FLOAT";
        let why = kept(&["h"], NORM, expected);
        assert_eq!(why.len(), 9, "{why:?}");
        assert_eq!(why.get(1).map(String::as_str), Some(super::BEHIND));
    }

    #[test]
    fn what_is_normalised_stays_with_the_scale() {
        let why = check_kept(&["k"]);
        assert!(why.contains(&("h".to_owned(), super::BEFORE.to_owned())), "{why:?}");
        // The type of what is before the quotient does not matter.
        assert_eq!(check_kept(&["p", "v", "w", "s", "n"]).len(), 5);
    }

    fn check_kept(names: &[&str]) -> Vec<(String, String)> {
        use prost::Message;
        let file = crate::passes::testing::read(NORM).encode_to_vec();
        let converted = crate::convert::convert(&file, None, &keeping(names)).expect("a model");
        converted.kept.into_iter().map(|kept| (kept.node, kept.why)).collect()
    }
}
