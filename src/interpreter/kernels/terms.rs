//! `TfIdfVectorizer`.

use std::collections::HashMap;

use tract_onnx::prelude::tract_ndarray::{ArrayD, IxDyn};
use tract_onnx::prelude::*;

use super::{KernelInputs, KernelOutputs, KernelSite};
use crate::cast::element_type::ElementType;
use crate::interpreter::value::TypedTensor;

/// `TfIdfVectorizer`: how often each of the pool's sequences is there, with as many left out
/// between its members.
pub(super) fn frequencies(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x = site.input(inputs, 0)?;
    let (words, pool): (Vec<String>, Vec<String>) = match x.ty {
        ElementType::String => {
            let pool = site.attribute("pool_strings").map(|pool| pool.strings).unwrap_or_default();
            let pool = pool.iter().map(|text| String::from_utf8_lossy(text).into_owned());
            (x.tensor.try_as_plain_ram()?.as_slice::<String>()?.to_vec(), pool.collect())
        }
        ElementType::Int32 | ElementType::Int64 => {
            let spell = |numbers: Vec<i64>| numbers.iter().map(i64::to_string).collect();
            (spell(site.numbers(inputs, 0)?), spell(site.ints("pool_int64s").unwrap_or_default()))
        }
        ty => return site.refuse(format!("has an input of {ty}")),
    };
    let rows = match *x.tensor.shape() {
        [_] => 1,
        [rows, _] => rows,
        _ => return site.refuse(format!("has an input of rank {}", x.tensor.rank())),
    };
    let indexes = site.ints("ngram_indexes").unwrap_or_default();
    let terms = terms(site, &pool, &indexes)?;
    let weights = site.attribute("weights").map(|weights| weights.floats);
    if weights.as_ref().is_some_and(|weights| weights.len() != indexes.len()) {
        return site.refuse("has not one weight for each sequence");
    }
    let width = indexes.iter().max().map_or(0, |most| most.saturating_add(1));
    let shape = match x.tensor.rank() {
        1 => site.shape(&[width])?,
        _ => site.shape(&[rows as i64, width])?,
    };
    let width = usize::try_from(width)?;
    let mut counts = vec![0f32; rows * width];
    // A term that is longer than all words is nowhere.
    let longest = site.int("max_gram_length").min(i64::try_from(words.len())?);
    let lengths = site.int("min_gram_length").max(1)..=longest;
    let skipped = site.int("max_skip_count");
    let Ok(skipped) = usize::try_from(skipped) else {
        return site.refuse(format!("has attribute `max_skip_count` {skipped}"));
    };
    for (row, counts) in counts.chunks_mut(width.max(1)).enumerate() {
        let length = words.len() / rows.max(1);
        let words = words.get(row * length..(row + 1) * length).unwrap_or_default();
        for length in lengths.clone() {
            let Ok(length) = usize::try_from(length) else { continue };
            // Of one member nothing is left out.
            let steps = if length == 1 { 0 } else { skipped };
            let steps = steps.saturating_add(1).min(words.len().max(1));
            count(words, length, steps, &terms, counts);
        }
        for (column, place) in terms.values() {
            let weight =
                weights.as_ref().and_then(|weights| weights.get(*place)).copied().unwrap_or(1.0);
            let Some(count) = counts.get_mut(*column) else { continue };
            *count = match site.word("mode").as_str() {
                "TF" => *count,
                "IDF" if *count > 0.0 => weight,
                "IDF" => 0.0,
                "TFIDF" => *count * weight,
                other => return site.refuse(format!("has attribute `mode` {other:?}")),
            };
        }
    }
    Ok(vec![TypedTensor::native(ArrayD::from_shape_vec(IxDyn(&shape), counts)?.into_tensor())?])
}

/// Counts the terms of so many words, each so many steps behind the one before it at most.
fn count<'w>(
    words: &'w [String],
    length: usize,
    steps: usize,
    terms: &Terms<'w>,
    counts: &mut [f32],
) {
    for step in 1..=steps {
        for at in 0..words.len() {
            let term: Option<Vec<&str>> =
                (0..length).map(|i| words.get(at + i * step).map(String::as_str)).collect();
            let found = term.and_then(|term| terms.get(&term).copied());
            if let Some(count) = found.and_then(|(column, _)| counts.get_mut(column)) {
                *count += 1.0;
            }
        }
    }
}

/// The column of each term, and its place among the pool's.
type Terms<'p> = HashMap<Vec<&'p str>, (usize, usize)>;

/// The pool's sequences, with their columns and places.
fn terms<'p>(site: &KernelSite, pool: &'p [String], indexes: &[i64]) -> TractResult<Terms<'p>> {
    let starts = site.ints("ngram_counts").unwrap_or_default();
    let mut terms = HashMap::new();
    let mut place = 0;
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(pool.len() as i64);
        let range = usize::try_from(*start)?..usize::try_from(end)?;
        let Some(of_length) = pool.get(range) else {
            return site.refuse(format!("has attribute `ngram_counts` {starts:?}"));
        };
        for term in of_length.chunks_exact(at + 1) {
            let Some(column) = indexes.get(place).and_then(|column| usize::try_from(*column).ok())
            else {
                return site.refuse("has not one column for each sequence");
            };
            let term: Vec<&str> = term.iter().map(String::as_str).collect();
            terms.insert(term, (column, place));
            place += 1;
        }
    }
    Ok(terms)
}
