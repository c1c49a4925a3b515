//! What attention computes.

use tract_onnx::tract_core::internal::*;

use super::Real;
use super::bias::{Mask, QueryPlace, softmax};
use super::op::{Attend, AttentionInput};
use super::shapes::AttentionSizes;
use crate::cast::kernel::level::Level;
use crate::ops::fixes::recurrent::PackedRows;

/// By what the products of queries with keys become scores.
struct Scoring<'a, T> {
    scale: T,
    mask: Option<&'a Mask<T>>,
    /// How many keys there are, those of the cache included.
    keys: usize,
}

impl Attend {
    pub(super) fn eval_as<T: Real>(&self, inputs: &[TValue]) -> TractResult<TVec<TValue>> {
        let dims: Vec<TVec<TDim>> = inputs
            .iter()
            .map(|input| input.shape().iter().map(|size| size.to_dim()).collect())
            .collect();
        let dims: Vec<&[TDim]> = dims.iter().map(|shape| &**shape).collect();
        let facts: Vec<TypedFact> =
            inputs.iter().map(|input| input.datum_type().fact(input.shape())).collect();
        self.check(&facts, &dims)?;
        let AttentionSizes { batch, heads, groups, queries, past, keys, key_size, value_size } =
            self.sizes(&dims)?;
        let sizes = AttentionSizes {
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
    fn run<T: Real>(
        &self,
        inputs: &[TValue],
        sizes: &AttentionSizes<usize>,
    ) -> TractResult<[Vec<T>; 4]> {
        let elements = |place: usize| -> TractResult<&[T]> {
            let input = inputs.get(place).context("has as many inputs as are given")?;
            input.try_as_plain_ram()?.as_slice::<T>()
        };
        let all = sizes.past + sizes.keys;
        let past = |which| self.place(which).map_or(Ok(&[][..]), elements);
        let (groups, batch) = (sizes.groups, sizes.batch);
        let key = self.present(past(AttentionInput::PastKey)?, elements(1)?, sizes, sizes.key_size);
        let value =
            self.present(past(AttentionInput::PastValue)?, elements(2)?, sizes, sizes.value_size);
        let mask =
            self.place(AttentionInput::Mask).map(|place| mask(&inputs[place])).transpose()?;
        let lengths = match self.place(AttentionInput::Lengths) {
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
        let scoring = Scoring { scale, mask: mask.as_ref(), keys: all };
        let level = Level::best();
        for head in 0..batch * sizes.heads {
            let (at, head_of) = (head / sizes.heads.max(1), head % sizes.heads.max(1));
            let group = at * groups + head_of * groups / sizes.heads.max(1);
            let keys = PackedRows::new(row(&key, group, all * sizes.key_size), sizes.key_size);
            let of_values = row(&value, group, all * sizes.value_size);
            let values = PackedRows::of_columns(of_values, sizes.value_size);
            let q = row(&q, head, sizes.queries * sizes.key_size);
            let mut scores = vec![T::default(); sizes.queries * all];
            keys.add_products(level, q, &mut scores, all);
            let of_batch = lengths.and_then(|lengths| lengths.get(at)).copied();
            let first = first_place(at, head_of, of_batch, sizes);
            let out = products.get_mut(head * sizes.queries * all..).unwrap_or_default();
            self.weigh_all(&scoring, first, &mut scores, out);
            let (at_y, stride) = self.in_y(at, head_of, sizes);
            let out = y.get_mut(at_y..).unwrap_or_default();
            values.add_products(level, &scores, out, stride);
        }
        Ok([y, key, value, products])
    }

    /// From the products of all queries of a head with all keys to the weights of their values.
    fn weigh_all<T: Real>(
        &self,
        scoring: &Scoring<T>,
        mut place: QueryPlace,
        scores: &mut Vec<T>,
        emitted: &mut [T],
    ) {
        let all = scoring.keys.max(1);
        let mut bias = vec![T::default(); all];
        let mut is_hidden = Vec::with_capacity(scores.len() / all);
        let mut rows = emitted.chunks_mut(all);
        for scores in scores.chunks_exact_mut(all) {
            let emitted = rows.next().unwrap_or_default();
            self.score(scoring, &place, scores, &mut bias, emitted);
            // What hides all is stronger than a score that is no number.
            let hides = |of: &[T]| of.iter().all(|x| *x == T::neg_infinity());
            is_hidden.push(hides(&bias) || hides(scores));
            place.query += 1;
        }
        if self.in_double {
            for row in scores.chunks_exact_mut(all) {
                let mut wide: Vec<f64> = row.iter().map(|score| (*score).into()).collect();
                softmax(&mut wide, all);
                row.iter_mut().zip(wide).for_each(|(score, wide)| *score = T::of_f64(wide));
            }
        } else {
            softmax(scores, all);
        }
        for (scores, is_hidden) in scores.chunks_exact_mut(all).zip(is_hidden) {
            if is_hidden {
                scores.fill(T::default());
            }
        }
        self.emit(3, scores, emitted);
    }

    /// The products of one query with all keys as the softmax takes them.
    fn score<T: Real>(
        &self,
        scoring: &Scoring<T>,
        place: &QueryPlace,
        scores: &mut [T],
        bias: &mut [T],
        emitted: &mut [T],
    ) {
        scores.iter_mut().for_each(|score| *score = *score * scoring.scale);
        self.emit(0, scores, emitted);
        if self.softcap > 0.0 {
            let cap: T = self.softcap.into();
            scores.iter_mut().for_each(|score| *score = (*score / cap).tangent() * cap);
        }
        self.emit(1, scores, emitted);
        self.bias(scoring.mask, place, bias);
        scores.iter_mut().zip(&*bias).for_each(|(score, bias)| *score = *score + *bias);
        self.emit(2, scores, emitted);
    }

    /// Puts out the products if it is this state of theirs that is wanted.
    fn emit<T: Real>(&self, mode: usize, scores: &[T], emitted: &mut [T]) {
        if mode == self.mode {
            emitted.iter_mut().zip(scores).for_each(|(out, score)| *out = *score);
        }
    }

    /// Where the first query of a head is in Y, and how far the next one is.
    fn in_y(&self, batch: usize, head: usize, sizes: &AttentionSizes<usize>) -> (usize, usize) {
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
                let of_place = (at * places + place) * heads + head;
                sorted.extend(row(all, of_place, size));
            }
        }
        sorted
    }

    /// What is past, and behind it what is given, for each group of each place in the batch.
    fn present<T: Real>(
        &self,
        past: &[T],
        given: &[T],
        sizes: &AttentionSizes<usize>,
        size: usize,
    ) -> Vec<T> {
        let given = self.by_heads(given, sizes.batch, sizes.groups, sizes.keys, size);
        if sizes.past == 0 {
            return given;
        }
        let mut all = Vec::with_capacity(past.len() + given.len());
        for group in 0..sizes.batch * sizes.groups {
            for (part, count) in [(past, sizes.past * size), (&given[..], sizes.keys * size)] {
                all.extend(row(part, group, count));
            }
        }
        all
    }
}

/// Of rows of `len` elements one after the other, the one at `index`.
fn row<T>(rows: &[T], index: usize, len: usize) -> &[T] {
    rows.get(index * len..(index + 1) * len).unwrap_or_default()
}

/// Where the first query of a head stands among the keys, of which a cache has so many that are no
/// padding.
fn first_place(
    batch: usize,
    head: usize,
    length: Option<i64>,
    sizes: &AttentionSizes<usize>,
) -> QueryPlace {
    let (past, queries) = (sizes.past as i64, sizes.queries as i64);
    QueryPlace {
        batch,
        head,
        query: 0,
        offset: length.map_or(past, |length| length.saturating_sub(queries)),
        keys: length.map_or(sizes.past + sizes.keys, |len| usize::try_from(len).unwrap_or(0)),
    }
}

/// A mask of numbers or of truths.
fn mask<T: Real>(mask: &Tensor) -> TractResult<Mask<T>> {
    let plain = mask.try_as_plain_ram()?;
    let elements = if mask.datum_type() == bool::datum_type() {
        let number = |is_seen: &bool| if *is_seen { T::default() } else { T::neg_infinity() };
        plain.as_slice::<bool>()?.iter().map(number).collect()
    } else {
        plain.as_slice::<T>()?.to_vec()
    };
    Ok(Mask::new(mask.shape(), elements))
}
