//! `LinearAttention`: one step after the other, in DOUBLE. ONNX Runtime's own may have more heads
//! of keys than of queries: then a query is that of several keys, each of which makes an output.

use tract_onnx::prelude::tract_ndarray::{Array, Ix3, Ix4, indices};
use tract_onnx::prelude::*;

use super::{KernelInputs, KernelOutputs, KernelSite, MICROSOFT};

type TokenRows = Array<f64, Ix3>;

/// The inputs but the state, and the heads of queries, of keys and of the output.
struct LinearInputs {
    q: TokenRows,
    k: TokenRows,
    v: TokenRows,
    decay: Option<TokenRows>,
    beta: Option<TokenRows>,
    heads: usize,
    groups: usize,
    outputs: usize,
}

/// `LinearAttention`: S = decay · S + k ⊗ update, o = scale · qᵀ S.
pub(super) fn attention(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    if site.int("state_window") != 0 {
        return site.refuse("has attribute `state_window`, and computed is only 0");
    }
    let layer = layer(site, inputs)?;
    let (batch, steps, keys) = layer.k.dim();
    let (rows, columns) = (keys / layer.groups, layer.v.dim().2 / layer.groups);
    let shape = (batch, layer.groups, rows, columns);
    let of_state = inputs.get(3).and_then(Option::as_ref);
    let mut state: Array<f64, Ix4> = match of_state {
        Some(_) => site.of_rank(inputs, 3, 4)?.into_dimensionality()?,
        None => Array::zeros(shape),
    };
    if state.dim() != shape {
        return site.refuse(format!("has a state of {:?}, not {shape:?}", state.dim()));
    }
    let scale = site.attribute("scale").map_or(0.0, |scale| f64::from(scale.f));
    let scale = if scale == 0.0 { 1.0 / (rows as f64).sqrt() } else { scale };
    let mut y: TokenRows = Array::zeros((batch, steps, layer.outputs * columns));
    for (b, t, g) in indices((batch, steps, layer.groups)) {
        layer.step((b, t, g), &mut state);
        let each = layer.outputs / layer.groups;
        for (h, column) in indices((each, columns)) {
            let h = g * each + h;
            let of_query = h * layer.heads / layer.outputs;
            let query = |row| layer.q[[b, t, of_query * rows + row]];
            let product = |row| query(row) * state[[b, g, row, column]];
            y[[b, t, h * columns + column]] = scale * (0..rows).map(product).sum::<f64>();
        }
    }
    let like = site.input(inputs, 0)?;
    let state = site.made(state.into_dyn(), of_state.unwrap_or(like))?;
    Ok(vec![site.made(y.into_dyn(), like)?, state])
}

/// The inputs, which fit each other.
fn layer(site: &KernelSite, inputs: &KernelInputs) -> TractResult<LinearInputs> {
    let three = |place: usize| -> TractResult<TokenRows> {
        Ok(site.of_rank(inputs, place, 3)?.into_dimensionality()?)
    };
    let optional = |place: usize| match inputs.get(place) {
        Some(Some(_)) => three(place).map(Some),
        _ => Ok(None),
    };
    let (q, k, v, decay, beta) = (three(0)?, three(1)?, three(2)?, optional(4)?, optional(5)?);
    let rule = site.word("update_rule");
    let (is_gated, is_delta) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return site.refuse(format!("has attribute `update_rule` {other:?}")),
    };
    if decay.is_some() != is_gated || beta.is_some() != is_delta {
        let problem = "and gated rules alone take `decay`, delta rules alone `beta`";
        return site.refuse(format!("has attribute `update_rule` {rule:?}, {problem}"));
    }
    let count = |name: &str| usize::try_from(site.int(name)).ok().filter(|count| *count > 0);
    let (Some(heads), Some(groups)) = (count("q_num_heads"), count("kv_num_heads")) else {
        return site.refuse("has numbers of heads that are not above 0");
    };
    let ((batch, steps, wide), (_, _, keys), (_, _, values)) = (q.dim(), k.dim(), v.dim());
    let others = [Some(&k), Some(&v), decay.as_ref(), beta.as_ref()].into_iter().flatten();
    let of_steps = others.map(|other| (other.dim().0, other.dim().1));
    let is_of = |given: &Option<TokenRows>, widths: [usize; 2]| {
        given.as_ref().is_none_or(|given| widths.contains(&given.dim().2))
    };
    let is_inverse = site.node.domain == MICROSOFT && groups % heads == 0;
    let fits = of_steps.into_iter().all(|size| size == (batch, steps))
        && (heads % groups == 0 || is_inverse)
        && keys % groups == 0
        && values % groups == 0
        && wide == heads * (keys / groups)
        && is_of(&decay, [groups, keys])
        && is_of(&beta, [groups, 1]);
    if !fits {
        let sizes = [Some(&q), Some(&k), Some(&v), decay.as_ref(), beta.as_ref()];
        let sizes: Vec<_> = sizes.into_iter().flatten().map(Array::dim).collect();
        let problem = format!("has inputs of {sizes:?} for {heads} heads and {groups} of keys");
        return site.refuse(problem);
    }
    let outputs = heads.max(groups);
    Ok(LinearInputs { q, k, v, decay, beta, heads, groups, outputs })
}

impl LinearInputs {
    /// What a token makes of the state of a group.
    fn step(&self, (b, t, g): (usize, usize, usize), state: &mut Array<f64, Ix4>) {
        let (_, _, rows, columns) = state.dim();
        if let Some(decay) = &self.decay {
            let is_of_row = decay.dim().2 == self.k.dim().2;
            for (row, column) in indices((rows, columns)) {
                let place = if is_of_row { g * rows + row } else { g };
                state[[b, g, row, column]] *= decay[[b, t, place]].exp();
            }
        }
        for column in 0..columns {
            let key = |row: usize| self.k[[b, t, g * rows + row]];
            let mut update = self.v[[b, t, g * columns + column]];
            if let Some(beta) = &self.beta {
                let known: f64 = (0..rows).map(|row| state[[b, g, row, column]] * key(row)).sum();
                let place = if beta.dim().2 == 1 { 0 } else { g };
                update = (update - known) * beta[[b, t, place]];
            }
            for row in 0..rows {
                state[[b, g, row, column]] += key(row) * update;
            }
        }
    }
}
