//! Which outputs of two sides belong together.

use anyhow::bail;
use tract_onnx::prelude::TractResult;

use crate::cli::tensor::NamedTensor;

/// Which output of one side belongs to which of the other, by their places.
pub(crate) struct Pairs {
    pub(crate) places: Vec<(usize, usize)>,
    /// How that was decided, if not by name.
    pub(crate) note: Option<String>,
}

impl Pairs {
    /// The pairs themselves.
    pub(crate) fn of<'a>(
        &self,
        reference: &'a [NamedTensor],
        converted: &'a [NamedTensor],
    ) -> Vec<(&'a NamedTensor, &'a NamedTensor)> {
        let pair = |(a, b): &(usize, usize)| reference.get(*a).zip(converted.get(*b));
        self.places.iter().filter_map(pair).collect()
    }
}

/// Pairs the outputs of two sides: by name, or by position where no name is shared.
/// Fails when there is no way to tell which belongs to which.
pub(crate) fn pair(reference: &[NamedTensor], converted: &[NamedTensor]) -> TractResult<Pairs> {
    let place = |name: &str| converted.iter().position(|output| output.name == name);
    let by_name: Vec<(usize, usize)> = reference
        .iter()
        .enumerate()
        .filter_map(|(index, output)| Some((index, place(&output.name)?)))
        .collect();
    let names = |outputs: &[NamedTensor]| {
        outputs.iter().map(|output| format!("`{}`", output.name)).collect::<Vec<_>>().join(", ")
    };
    if by_name.len() == reference.len() && reference.len() == converted.len() {
        return Ok(Pairs { places: by_name, note: None });
    }
    if by_name.is_empty() && reference.len() == converted.len() {
        let same = |(a, b): (&NamedTensor, &NamedTensor)| a.tensor.shape() == b.tensor.shape();
        if !reference.iter().zip(converted).all(same) {
            let (a, b) = (names(reference), names(converted));
            bail!("the outputs are not the same ones: {a} and {b}, of other shapes as well");
        }
        let note = format!(
            "no output has the same name on both sides, so they are compared by position: {} with {}",
            names(reference),
            names(converted)
        );
        let places = (0..reference.len()).map(|index| (index, index)).collect();
        return Ok(Pairs { places, note: Some(note) });
    }
    bail!(
        "the outputs differ: the reference has {}, the converted side {}",
        names(reference),
        names(converted)
    )
}
