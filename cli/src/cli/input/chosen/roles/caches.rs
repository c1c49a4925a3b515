//! Inputs that take what an output held in an earlier run: caches of attention, states of recurrent
//! layers.

use onnx_cast_graph::{Graph, Origin, tensor_type};

use super::follow::Reached;
use super::{Evidence, Role};
use crate::cli::input::declared::{Declared, Input};

/// What an input of a cache is called, and what the output is then.
const PAIRS: &[(&str, &str)] = &[
    ("past_key_values", "present"),
    ("past_key_values", "present_key_values"),
    ("past_key_value", "present_key_value"),
    ("past", "present"),
    ("cache_in", "cache_out"),
    ("_in", "_out"),
    ("in_", "out_"),
    ("cache", "new_cache"),
    ("cache", "cache_out"),
    ("state", "state_out"),
    ("state", "new_state"),
    ("state", "staten"),
    ("h0", "hn"),
    ("c0", "cn"),
    ("h", "hn"),
    ("c", "cn"),
    ("input", "output"),
];

/// What a cache or a state is called.
const WORDS: &[&str] =
    &["past", "cache", "state", "mem", "buffer", "hidden", "kv", "h0", "c0", "hx", "cx"];

/// Whether an input is what an output was.
pub(super) fn evidence(
    graph: &Graph,
    input: &Input,
    takes: &Declared,
    reached: &[Reached],
) -> Option<Evidence> {
    if !input.ty.is_float() || takes.inputs.len() < 2 {
        return None;
    }
    let rank = input.rank()?;
    let outputs = graph.body(graph.main()).outputs();
    let fits = |name: &String| {
        let mut found = outputs.iter().filter(|output| output.declared.name == *name);
        found.any(|output| {
            let is_input = matches!(graph.value(output.value).origin(), Origin::Input);
            !is_input && rank_of(&output.declared).is_none_or(|other| other == rank)
        })
    };
    let named = input.name.to_ascii_lowercase();
    let is_called = WORDS.iter().any(|word| named.contains(word));
    let joined = reached.iter().find(|reached| {
        reached.way.is_joined && !reached.way.is_scaled && is_called && fits(&reached.output)
    });
    if let Some(Reached { output, .. }) = joined {
        let why = format!("the output `{output}` holds it");
        return Some(Evidence { weight: 86, role: Role::Cache { output: output.clone() }, why });
    }
    let paired = PAIRS.iter().filter(|(from, _)| is_called && input.name.contains(from));
    let output = paired.map(|(from, to)| input.name.replacen(from, to, 1)).find(fits)?;
    let why = format!("the output `{output}` is called alike");
    Some(Evidence { weight: 84, role: Role::Cache { output }, why })
}

fn rank_of(declared: &tract_onnx::pb::ValueInfoProto) -> Option<usize> {
    Some(tensor_type(declared.r#type.as_ref())?.shape.as_ref()?.dim.len())
}
