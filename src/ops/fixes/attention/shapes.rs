//! The sizes of attention's operands, what they must agree in, and the shapes of what it makes.

use tract_onnx::tract_core::internal::*;

use super::op::{Attend, AttentionInput};

/// Sizes, as numbers or as dimensions.
#[derive(Debug, Clone)]
pub(super) struct AttentionSizes<D> {
    pub(super) batch: D,
    pub(super) heads: D,
    /// Of keys and values.
    pub(super) groups: D,
    pub(super) queries: D,
    pub(super) past: D,
    /// Those that are not past.
    pub(super) keys: D,
    pub(super) key_size: D,
    pub(super) value_size: D,
}
impl Attend {
    /// The sizes by the inputs' shapes. Fails where shapes contradict each other.
    pub(super) fn sizes(&self, shapes: &[&[TDim]]) -> TractResult<AttentionSizes<TDim>> {
        let shape = |place: usize| shapes.get(place).copied().unwrap_or_default();
        let past =
            self.place(AttentionInput::PastKey).and_then(|place| shape(place).get(2).cloned());
        let past = past.unwrap_or_else(|| 0.to_dim());
        let head = |dim: &TDim, heads: usize| {
            let is_whole = dim.as_i64().is_none_or(|size| size % heads as i64 == 0);
            let problem =
                || self.error(format!("has {dim} along an axis, and {heads} as a number of heads"));
            if is_whole { Ok(dim.clone() / heads) } else { Err(problem()) }
        };
        let sizes = match (shape(0), shape(1), shape(2), self.heads) {
            ([batch, heads, queries, size], [_, groups, keys, _], [_, _, _, values], None) => {
                AttentionSizes {
                    batch: batch.clone(),
                    heads: heads.clone(),
                    groups: groups.clone(),
                    queries: queries.clone(),
                    past,
                    keys: keys.clone(),
                    key_size: size.clone(),
                    value_size: values.clone(),
                }
            }
            ([batch, queries, all], [_, keys, _], [_, _, values], Some(heads)) => AttentionSizes {
                batch: batch.clone(),
                heads: heads.queries.to_dim(),
                groups: heads.keys.to_dim(),
                queries: queries.clone(),
                past,
                keys: keys.clone(),
                key_size: head(all, heads.queries)?,
                value_size: head(values, heads.keys)?,
            },
            (q, k, v, heads) => {
                let ranks = [q.len(), k.len(), v.len()];
                let with = if heads.is_some() { "with" } else { "without" };
                Err(self.error(format!("has Q, K and V of ranks {ranks:?} {with} `q_num_heads`")))?
            }
        };
        if let (Some(heads), Some(groups)) = (sizes.heads.as_i64(), sizes.groups.as_i64())
            && (groups == 0 || heads % groups != 0)
        {
            Err(self.error(format!("has {heads} heads of queries for {groups} of keys")))?;
        }
        Ok(sizes)
    }

    /// The shapes of all outputs by those of the inputs.
    pub(super) fn shapes(&self, shapes: &[&[TDim]]) -> TractResult<[TVec<TDim>; 4]> {
        let AttentionSizes { batch, heads, groups, queries, past, keys, key_size, value_size } =
            self.sizes(shapes)?;
        let all = past + keys;
        let y = match self.heads {
            None => tvec![batch.clone(), heads.clone(), queries.clone(), value_size.clone()],
            Some(_) => tvec![batch.clone(), queries.clone(), heads.clone() * &value_size],
        };
        Ok([
            y,
            tvec![batch.clone(), groups.clone(), all.clone(), key_size],
            tvec![batch.clone(), groups, all.clone(), value_size],
            tvec![batch, heads, queries, all],
        ])
    }

    /// Fails where types or shapes of operands contradict the standard.
    pub(super) fn check(&self, facts: &[TypedFact], shapes: &[&[TDim]]) -> TractResult<()> {
        let sizes = self.sizes(shapes)?;
        let ty = facts.first().context("has no Q")?.datum_type;
        if !matches!(ty, DatumType::F32 | DatumType::F64) {
            Err(self.error(format!("is computed in FLOAT and DOUBLE, not {ty:?}")))?;
        }
        for (place, fact) in facts.iter().enumerate() {
            let which = place.checked_sub(3).and_then(|place| self.given.get(place));
            let fits = match which {
                Some(AttentionInput::Mask) => {
                    fact.datum_type == ty || fact.datum_type == bool::datum_type()
                }
                Some(AttentionInput::Lengths) => fact.datum_type == i64::datum_type(),
                _ => fact.datum_type == ty,
            };
            if !fits {
                let name = which.map_or("Q, K or V".into(), |which| format!("{which:?}"));
                Err(self.error(format!("has {name} of {:?}, and Q of {ty:?}", fact.datum_type)))?;
            }
        }
        let heads = |heads: &TDim, size: &TDim| heads.clone() * size;
        let differs = |a: &TDim, b: &TDim| a.as_i64().zip(b.as_i64()).is_some_and(|(a, b)| a != b);
        let key = shapes.get(1).and_then(|shape| shape.last()).context("has no K")?;
        let of_keys = match self.heads {
            Some(_) => heads(&sizes.groups, &sizes.key_size),
            None => sizes.key_size.clone(),
        };
        if differs(key, &of_keys) {
            Err(self.error(format!("has keys of size {key}, not {of_keys}")))?;
        }
        if let Some(mask) = self.place(AttentionInput::Mask).and_then(|place| shapes.get(place)) {
            self.check_mask(mask, &sizes)?;
        }
        Ok(())
    }

    fn check_mask(&self, mask: &[TDim], sizes: &AttentionSizes<TDim>) -> TractResult<()> {
        let all = sizes.past.clone() + &sizes.keys;
        let whole = [&sizes.batch, &sizes.heads, &sizes.queries, &all];
        let fits = mask.len() <= 4
            && mask.iter().rev().zip(whole.iter().rev()).enumerate().all(
                |(place, (has, whole))| {
                    let (Some(has), Some(whole)) = (has.as_i64(), whole.as_i64()) else {
                        return true;
                    };
                    // Keys behind the end of a mask are hidden.
                    has == whole || if place == 0 { 0 < has && has < whole } else { has == 1 }
                },
            );
        if fits && !mask.is_empty() {
            return Ok(());
        }
        let spell = |dims: &mut dyn Iterator<Item = &TDim>| {
            dims.map(TDim::to_string).collect::<Vec<_>>().join(", ")
        };
        let (has, whole) = (spell(&mut mask.iter()), spell(&mut whole.into_iter()));
        Err(self.error(format!("has a mask of shape [{has}] for products of [{whole}]")))?
    }
}
