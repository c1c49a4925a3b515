//! Attention as one operator of tract's.

use tract_onnx::tract_core::internal::*;

use super::Real;
use super::bias::{Mask, Place, softmax};
use crate::cast::kernel::level::Level;
use crate::error::Error;
use crate::ops::fixes::recurrent::Packed;
use crate::ops::host::hook::refused;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Save, Saved};

/// What may be given beside Q, K and V, in ONNX's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Optional {
    Mask,
    PastKey,
    PastValue,
    /// How many keys of a cache are no padding.
    Lengths,
}

impl Optional {
    const ALL: [Optional; 4] =
        [Optional::Mask, Optional::PastKey, Optional::PastValue, Optional::Lengths];

    /// What ONNX's input at a place is.
    pub(super) fn of(place: usize) -> Option<Optional> {
        Optional::ALL.get(place.checked_sub(3)?).copied()
    }
}

/// The heads of inputs of three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) queries: usize,
    pub(super) keys: usize,
}

/// Q, K, V and what is given beside them in; Y, the present keys and values and the products out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attend {
    /// For messages.
    pub(super) node: Label,
    pub(super) heads: Option<Heads>,
    /// What the products are multiplied by, if it is not one by the root of a key's size.
    pub(super) scale: Option<f32>,
    /// 0 for none.
    pub(super) softcap: f32,
    pub(super) is_causal: bool,
    /// How many keys before, and behind, a query's own it sees, if not all.
    pub(super) left: Option<usize>,
    pub(super) right: Option<usize>,
    /// When the products are put out: as they are, after the softcap, with what is added, after the softmax.
    pub(super) mode: usize,
    /// Whether the softmax is computed in DOUBLE.
    pub(super) in_double: bool,
    /// In ONNX's order.
    pub(super) given: TVec<Optional>,
    /// Which of the outputs there are.
    pub(super) emitted: [bool; 4],
}

impl Eq for Attend {}

/// Sizes, as numbers or as dimensions.
#[derive(Debug, Clone)]
struct Sizes<D> {
    batch: D,
    heads: D,
    /// Of keys and values.
    groups: D,
    queries: D,
    past: D,
    /// Those that are not past.
    keys: D,
    key_size: D,
    value_size: D,
}

impl Attend {
    pub(super) fn error(&self, problem: impl Into<String>) -> Error {
        refused(&self.node, "Attention", problem)
    }

    /// Which of ONNX's outputs there are.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let emitted = self.emitted;
        (0..4).filter(move |place| emitted.get(*place) == Some(&true))
    }

    /// Which of the inputs it is.
    fn place(&self, which: Optional) -> Option<usize> {
        Some(3 + self.given.iter().position(|given| *given == which)?)
    }

    /// The sizes by the inputs' shapes.
    ///
    /// # Errors
    ///
    /// Fails where shapes contradict each other.
    fn sizes(&self, shapes: &[&[TDim]]) -> TractResult<Sizes<TDim>> {
        let shape = |place: usize| shapes.get(place).copied().unwrap_or_default();
        let past = self.place(Optional::PastKey).and_then(|place| shape(place).get(2).cloned());
        let past = past.unwrap_or_else(|| 0.to_dim());
        let head = |dim: &TDim, heads: usize| {
            let is_whole = dim.as_i64().is_none_or(|size| size % heads as i64 == 0);
            let problem = || self.error(format!("has {dim} elements for {heads} heads"));
            if is_whole { Ok(dim.clone() / heads) } else { Err(problem()) }
        };
        let sizes = match (shape(0), shape(1), shape(2), self.heads) {
            ([batch, heads, queries, size], [_, groups, keys, _], [_, _, _, values], None) => {
                Sizes {
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
            ([batch, queries, all], [_, keys, _], [_, _, values], Some(heads)) => Sizes {
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
        let Sizes { batch, heads, groups, queries, past, keys, key_size, value_size } =
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
                Some(Optional::Mask) => {
                    fact.datum_type == ty || fact.datum_type == bool::datum_type()
                }
                Some(Optional::Lengths) => fact.datum_type == i64::datum_type(),
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
            Err(self.error(format!("has keys of {key} elements, not {of_keys}")))?;
        }
        if let Some(mask) = self.place(Optional::Mask).and_then(|place| shapes.get(place)) {
            self.check_mask(mask, &sizes)?;
        }
        Ok(())
    }

    fn check_mask(&self, mask: &[TDim], sizes: &Sizes<TDim>) -> TractResult<()> {
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

    fn eval_as<T: Real>(&self, inputs: &[TValue]) -> TractResult<TVec<TValue>> {
        let dims: Vec<TVec<TDim>> = inputs
            .iter()
            .map(|input| input.shape().iter().map(|size| size.to_dim()).collect())
            .collect();
        let dims: Vec<&[TDim]> = dims.iter().map(|shape| &**shape).collect();
        let facts: Vec<TypedFact> =
            inputs.iter().map(|input| input.datum_type().fact(input.shape())).collect();
        self.check(&facts, &dims)?;
        let Sizes { batch, heads, groups, queries, past, keys, key_size, value_size } =
            self.sizes(&dims)?;
        let sizes = Sizes {
            batch: batch.to_usize()?,
            heads: heads.to_usize()?,
            groups: groups.to_usize()?,
            queries: queries.to_usize()?,
            past: past.to_usize()?,
            keys: keys.to_usize()?,
            key_size: key_size.to_usize()?,
            value_size: value_size.to_usize()?,
        };
        let made = self.run::<T>(inputs, &sizes)?;
        let shapes = self.shapes(&dims)?;
        let there =
            made.into_iter().zip(shapes).zip(self.emitted).filter(|(_, is_there)| *is_there);
        there
            .map(|((elements, shape), _)| {
                let shape: TVec<usize> =
                    shape.iter().map(TDim::to_usize).collect::<Result<_, _>>()?;
                Ok(tract_ndarray::ArrayD::from_shape_vec(&*shape, elements)?.into_tensor().into())
            })
            .collect()
    }

    /// The elements of all outputs; those that nobody wants may be missing.
    fn run<T: Real>(&self, inputs: &[TValue], sizes: &Sizes<usize>) -> TractResult<[Vec<T>; 4]> {
        let elements = |place: usize| -> TractResult<&[T]> {
            let input = inputs.get(place).context("has as many inputs as are given")?;
            input.try_as_plain_ram()?.as_slice::<T>()
        };
        let all = sizes.past + sizes.keys;
        let past = |which| self.place(which).map_or(Ok(&[][..]), elements);
        let (groups, batch) = (sizes.groups, sizes.batch);
        let key = self.present(
            past(Optional::PastKey)?,
            elements(1)?,
            batch * groups,
            sizes,
            sizes.key_size,
        );
        let value = self.present(
            past(Optional::PastValue)?,
            elements(2)?,
            batch * groups,
            sizes,
            sizes.value_size,
        );
        let mask = self.place(Optional::Mask).map(|place| mask(&inputs[place])).transpose()?;
        let lengths = match self.place(Optional::Lengths) {
            Some(place) => Some(inputs[place].try_as_plain_ram()?.as_slice::<i64>()?),
            None => None,
        };
        if lengths.is_some_and(|lengths| lengths.len() != batch) {
            Err(self.error(format!("has not as many lengths as its batch of {batch} needs")))?;
        }
        let q =
            self.by_heads(elements(0)?, sizes.batch, sizes.heads, sizes.queries, sizes.key_size);
        let mut y = vec![T::default(); batch * sizes.heads * sizes.queries * sizes.value_size];
        let products = batch * sizes.heads * sizes.queries * all;
        let mut products = vec![T::default(); if self.emitted[3] { products } else { 0 }];
        let default = 1.0 / (sizes.key_size as f64).sqrt();
        let scale = T::of_f64(self.scale.map_or(default, f64::from));
        for head in 0..batch * sizes.heads {
            let (at, head_of) = (head / sizes.heads.max(1), head % sizes.heads.max(1));
            let group = at * groups + head_of * groups / sizes.heads.max(1);
            let rows = |all: &'_ [T], index: usize, len: usize| -> Vec<T> {
                all.get(index * len..(index + 1) * len).unwrap_or_default().to_vec()
            };
            let keys = Packed::new(&rows(&key, group, all * sizes.key_size), sizes.key_size);
            let of_values = rows(&value, group, all * sizes.value_size);
            let values = Packed::of_columns(&of_values, sizes.value_size);
            let q = rows(&q, head, sizes.queries * sizes.key_size);
            let mut scores = vec![T::default(); sizes.queries * all];
            keys.add_products(Level::best(), &q, &mut scores, all);
            let of_batch = lengths.and_then(|lengths| lengths.get(at)).copied();
            let queries = sizes.queries as i64;
            let first = Place {
                batch: at,
                head: head_of,
                query: 0,
                offset: of_batch.map_or(sizes.past as i64, |len| len.saturating_sub(queries)),
                keys: of_batch.map_or(all, |len| usize::try_from(len).unwrap_or(0)),
            };
            let out = products.get_mut(head * sizes.queries * all..).unwrap_or_default();
            self.weigh_all(scale, mask.as_ref(), first, all, &mut scores, out);
            let (at_y, stride) = self.in_y(at, head_of, sizes);
            let out = y.get_mut(at_y..).unwrap_or_default();
            values.add_products(Level::best(), &scores, out, stride);
        }
        Ok([y, key, value, products])
    }

    /// From the products of all queries of a head with all keys to the weights of their values.
    fn weigh_all<T: Real>(
        &self,
        scale: T,
        mask: Option<&Mask<T>>,
        mut place: Place,
        all: usize,
        scores: &mut [T],
        emitted: &mut [T],
    ) {
        let mut bias = vec![T::default(); all];
        let mut emitted = emitted.chunks_mut(all.max(1));
        for scores in scores.chunks_exact_mut(all.max(1)) {
            let emitted = emitted.next().unwrap_or_default();
            self.weigh(scale, mask, &place, scores, &mut bias, emitted);
            place.query += 1;
        }
    }

    /// As [`Attend::weigh_all`], of one query.
    fn weigh<T: Real>(
        &self,
        scale: T,
        mask: Option<&Mask<T>>,
        place: &Place,
        scores: &mut [T],
        bias: &mut [T],
        emitted: &mut [T],
    ) {
        let mut emit = |mode: usize, scores: &[T]| {
            if mode == self.mode {
                emitted.iter_mut().zip(scores).for_each(|(out, score)| *out = *score);
            }
        };
        scores.iter_mut().for_each(|score| *score = *score * scale);
        emit(0, scores);
        if self.softcap > 0.0 {
            let cap = T::of(self.softcap);
            scores.iter_mut().for_each(|score| *score = (*score / cap).tanh() * cap);
        }
        emit(1, scores);
        self.bias(mask, place, bias);
        scores.iter_mut().zip(&*bias).for_each(|(score, bias)| *score = *score + *bias);
        emit(2, scores);
        if bias.iter().all(|bias| *bias == -T::INFINITY) {
            scores.fill(T::default());
        } else if self.in_double {
            let mut wide: Vec<f64> = scores.iter().map(|score| score.to_f64()).collect();
            softmax(&mut wide);
            scores.iter_mut().zip(wide).for_each(|(score, wide)| *score = T::of_f64(wide));
        } else {
            softmax(scores);
        }
        emit(3, scores);
    }

    /// Where the first query of a head is in Y, and how far the next one is.
    fn in_y(&self, batch: usize, head: usize, sizes: &Sizes<usize>) -> (usize, usize) {
        let size = sizes.value_size;
        match self.heads {
            None => ((batch * sizes.heads + head) * sizes.queries * size, size),
            Some(_) => {
                let stride = sizes.heads * size;
                (batch * sizes.queries * stride + head * size, stride)
            }
        }
    }

    /// A tensor in the order batch, heads, places.
    fn by_heads<T: Real>(
        &self,
        all: &[T],
        batch: usize,
        heads: usize,
        places: usize,
        size: usize,
    ) -> Vec<T> {
        if self.heads.is_none() {
            return all.to_vec();
        }
        let mut sorted = Vec::with_capacity(all.len());
        for head in 0..batch * heads {
            let (at, head) = (head / heads.max(1), head % heads.max(1));
            for place in 0..places {
                let row = (at * places + place) * heads + head;
                sorted.extend(all.get(row * size..(row + 1) * size).unwrap_or_default());
            }
        }
        sorted
    }

    /// What is past, and behind it what is given, for each group of each place in the batch.
    fn present<T: Real>(
        &self,
        past: &[T],
        given: &[T],
        rows: usize,
        sizes: &Sizes<usize>,
        size: usize,
    ) -> Vec<T> {
        let given = self.by_heads(given, sizes.batch, sizes.groups, sizes.keys, size);
        if sizes.past == 0 {
            return given;
        }
        let mut all = Vec::with_capacity(past.len() + given.len());
        for row in 0..rows {
            for (part, count) in [(past, sizes.past * size), (&given[..], sizes.keys * size)] {
                all.extend(part.get(row * count..(row + 1) * count).unwrap_or_default());
            }
        }
        all
    }
}

/// A mask of numbers or of truths.
fn mask<T: Real>(mask: &Tensor) -> TractResult<Mask<T>> {
    let plain = mask.try_as_plain_ram()?;
    let elements = if mask.datum_type() == bool::datum_type() {
        let number = |is_seen: &bool| if *is_seen { T::default() } else { -T::INFINITY };
        plain.as_slice::<bool>()?.iter().map(number).collect()
    } else {
        plain.as_slice::<T>()?.to_vec()
    };
    Ok(Mask::new(mask.shape(), elements))
}

impl Op for Attend {
    fn name(&self) -> StaticName {
        "Attention".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Attend {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let ty = inputs.first().map(|q| q.datum_type());
        match ty {
            Some(DatumType::F32) => self.eval_as::<f32>(&inputs),
            Some(DatumType::F64) => self.eval_as::<f64>(&inputs),
            _ => Err(self.error(format!("is computed in FLOAT and DOUBLE, not {ty:?}")))?,
        }
    }
}

impl TypedOp for Attend {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shapes: Vec<TVec<TDim>> = inputs.iter().map(|fact| fact.shape.to_tvec()).collect();
        let shapes: Vec<&[TDim]> = shapes.iter().map(|shape| &**shape).collect();
        let ty = inputs.first().context("has no Q")?.datum_type;
        let shapes = self.shapes(&shapes)?;
        let there = self.places().filter_map(|place| shapes.get(place));
        Ok(there.map(|shape| ty.fact(&**shape)).collect())
    }

    as_op!();
}

impl Save for Attend {
    const NAME: &'static str = "tract_onnx_cast_attention";

    const OUTPUTS: &'static [&'static str] = &["y", "key", "value", "products"];

    fn save(&self) -> Saved {
        let heads =
            self.heads.map_or(String::new(), |heads| format!("{} {}", heads.queries, heads.keys));
        let given = Optional::ALL.map(|which| self.given.contains(&which));
        let flags = [self.is_causal, self.in_double];
        let all = given.iter().chain(&self.emitted).chain(&flags).enumerate();
        let places: Vec<usize> = all.filter(|(_, is)| **is).map(|(place, _)| place).collect();
        let window = |side: Option<usize>| side.map_or(String::new(), |side| side.to_string());
        Saved::default()
            .text(heads)
            .text(self.scale.map_or(String::new(), |scale| format!("{scale:?}")))
            .text(format!("{:?}", self.softcap))
            .text(window(self.left))
            .text(window(self.right))
            .text(self.mode.to_string())
            .axes(&places)
    }

    fn restore(node: Label, saved: &Saved) -> TractResult<Attend> {
        let text =
            |at: usize| saved.text_at(at).map(|text| Some(text).filter(|text| !text.is_empty()));
        let heads = match text(0)?.map(|text| text.split(' ').collect::<Vec<_>>()).as_deref() {
            None => None,
            Some([queries, keys]) => Some(Heads { queries: queries.parse()?, keys: keys.parse()? }),
            Some(other) => bail!("{other:?} are no numbers of heads"),
        };
        let is_there = |place: usize| saved.axes.contains(&place);
        let given = Optional::ALL.into_iter().enumerate();
        Ok(Attend {
            node,
            heads,
            scale: text(1)?.map(str::parse).transpose()?,
            softcap: saved.text_at(2)?.parse()?,
            is_causal: is_there(8),
            left: text(3)?.map(str::parse).transpose()?,
            right: text(4)?.map(str::parse).transpose()?,
            mode: saved.text_at(5)?.parse()?,
            in_double: is_there(9),
            given: given.filter(|(place, _)| is_there(*place)).map(|(_, which)| which).collect(),
            emitted: std::array::from_fn(|output| is_there(4 + output)),
        })
    }
}
