"""`onnx-cast reduce --check` on known faults inside larger models: nodes left, runs, seconds, as a table.

    PYTHONPATH=scripts python -P -m campaign.checked onnx-cast models/found [--only TEXT] [--nodes N] [--seed N]

Each case of the folder (`replay`) becomes a part of a larger graph, shuffled: nodes make its inputs and take its outputs,
and random graphs (`graphs`) on which the tool does nothing wrong stand beside it, N nodes in all. The command asks this
process by a socket (`ask`), which asks the tool and exits with what is wrong (`judge`). The exit status is 1 where a fault
that the larger graph shows is not reduced, or leaves more than 3 nodes and more than the case has, or none of its operators.
"""

import argparse
import random
import tempfile
from pathlib import Path

import onnx
from onnx import compose, helper

from campaign import graphs, judge, tools
from campaign.campaign import reduced, serve
from campaign.replay import case_of

FEWEST = 3


def wider(tool, model, feeds, nodes, seed):
    """The model inside a larger one, and its inputs by their names."""
    rng = random.Random(seed)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    given = dict(feeds)
    surround(whole.graph, given)
    tries = 0
    while len(whole.graph.node) < nodes and tries < 10 * nodes:
        tries += 1
        beside, values = other(tool, rng.randrange(1 << 30), model)
        if beside is None:
            continue
        beside = compose.add_prefix(beside, f"beside{tries}_")
        for field in ("node", "initializer", "input", "output"):
            getattr(whole.graph, field).extend(getattr(beside.graph, field))
        given |= {f"beside{tries}_{name}": value for name, value in values.items()}
    shuffle(whole.graph, rng)
    return whole, given


def surround(graph, given):
    """Has two Transposes, of which one undoes the other, make each input, and an Identity take each output."""
    before, after = [], []
    for value in graph.input:
        if given[value.name].dtype.kind not in "fiub" or not given[value.name].ndim:
            continue
        inner, middle, outer = value.name, f"{value.name}_turned", f"{value.name}_given"
        axes = list(range(given[inner].ndim))[::-1]
        for taken, made in ((outer, middle), (middle, inner)):
            before.append(helper.make_node("Transpose", [taken], [made], f"to_{made}", perm=axes))
        given[outer] = given.pop(inner)
        value.name = outer
    for value in graph.output:
        inner, outer = value.name, f"{value.name}_returned"
        after.append(helper.make_node("Identity", [inner], [outer], f"to_{outer}"))
        value.name = outer
    held = list(graph.node)
    del graph.node[:]
    graph.node.extend([*before, *held, *after])


def other(tool, seed, model):
    """A random graph of the model's opset on which nothing is wrong, and its inputs."""
    opset = next(held.version for held in model.opset_import if held.domain in ("", "ai.onnx"))
    beside, values = graphs.graph(seed, opset) or (None, [])
    if beside is None:
        return None, {}
    feeds = dict(zip([value.name for value in beside.graph.input], values, strict=True))
    is_wrong = any(judge.judged(asked, beside, feeds) for asked in ("disabled", "all", tool))
    is_refused = judge.tried(tools.run, beside, feeds, "disabled")[1] is not None
    return (None, {}) if is_wrong or is_refused else (beside, feeds)


def shuffle(graph, rng):
    """Puts the nodes in another topological order."""
    left = list(graph.node)
    made = {value.name for value in (*graph.input, *graph.initializer)} | {""}
    del graph.node[:]
    while left:
        node = rng.choice([node for node in left if made.issuperset(taken(node))])
        left.remove(node)
        made.update(node.output)
        graph.node.append(node)


def taken(node):
    """The values that a node takes from its graph, those of its bodies among them."""
    names = set(node.input)
    for body in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
        made = {name for inner in body.node for name in inner.output}
        made |= {value.name for value in (*body.input, *body.initializer)}
        names |= {name for inner in body.node for name in taken(inner)} - made
    return names


def operators_of(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from operators_of(attribute.g)


def row_of(options, folder, scratch):
    tool = folder.name.split("__")[0]
    model, feeds = case_of(folder)
    whole, given = wider(tool, model, feeds, options.nodes, options.seed)
    row = {"case": folder.name, "nodes": len(whole.graph.node)}
    found = judge.judged(tool, whole, given)
    if not found:
        return row | {"problem": "the larger graph does not show it"}
    arrays = [given[value.name] for value in whole.graph.input]
    case, facts = reduced(options, tool, found[0], whole, arrays, scratch)
    if case is None:
        return row | {"problem": facts, "is_small": False}
    operators, left = list(operators_of(model.graph)), facts["left"]
    is_small = len(left) <= max(FEWEST, len(operators))
    is_there = not set(operators).isdisjoint(left)
    return row | facts | {"nodes": row["nodes"], "is_small": is_small, "is_there": is_there}


def shown(row):
    left = row.get("left", [])
    facts = (row["case"], row["nodes"], len(left), " ".join(left) or row.get("problem"))
    return f"| {' | '.join(map(str, (*facts, row.get('runs', ''), row.get('seconds', ''))))} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    print("| case | nodes | left | operators | runs | seconds |\n|---|--:|--:|---|--:|--:|")
    with tempfile.TemporaryDirectory() as scratch:
        serve(Path(scratch) / "socket")
        for folder in sorted(path.parent for path in options.folder.glob("*/model.onnx")):
            if options.only in folder.name:
                rows.append(row_of(options, folder, Path(scratch)))
                print(shown(rows[-1]), flush=True)
    asked = [row for row in rows if "is_small" in row]
    small, there = (sum(row.get(what, False) for row in asked) for what in ("is_small", "is_there"))
    print(f"{len(rows)} faults, {len(asked)} of them shown by a larger graph: {small} are small,")
    print(f"in {there} an operator of the fault is left")
    return int(min(small, there) < len(asked))


if __name__ == "__main__":
    raise SystemExit(main())
