//! How much memory models need at least, told from the heads of their weights before anything runs.
//! docs/untrusted.md has the rule.

use std::path::Path;
use std::thread;

use prost::Message;
use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx_cast::ElementType;

use crate::cli::input::files::Format;
use crate::cli::message::{quoted, size_in_words};
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;

/// What the program takes itself: addresses of its code, and the stacks of its threads.
const PROGRAM: u64 = 320 << 20;
/// From so many bytes on a matrix in a file beside the model, or in its own, is read in parts where
/// a node takes it.
const IN_PARTS: u64 = 4 << 20;
/// What such parts take, and what is computed with them.
const PARTS: u64 = 64 << 20;

/// That a model needs more memory than there is.
pub(crate) struct TooLarge<'a> {
    /// Which one.
    pub(crate) model: &'a Path,
    /// Of what it needs how much.
    pub(crate) reason: String,
}

impl Loader {
    /// The first of some models, or of folders that hold them, that needs more memory than there
    /// is. What is no model, or cannot be read, is not judged: whatever reads it says so.
    pub(crate) fn too_large<'a>(&self, models: &[&'a Path]) -> Option<TooLarge<'a>> {
        models.iter().find_map(|place| {
            let inner = place.join("model.onnx");
            let file = if inner.is_file() { &*inner } else { place };
            let is_array = matches!(Format::of(file), Some(Format::Npy | Format::Npz));
            let proto = if is_array { None } else { self.read_light(file).ok() };
            let folder = file.parent().unwrap_or(Path::new(""));
            let reason = too_large((&proto?, folder), self.engine, self.memory_bytes)?;
            Some(TooLarge { model: place, reason })
        })
    }

    /// How many runs fit the processors and the memory: beside both models, whose weights stay in
    /// their files, each run holds `values` bytes of values, and a few copies of a weight.
    pub(crate) fn runs_at_once(&self, models: [&ModelProto; 2], values: usize) -> usize {
        const OTHERS: u64 = 1 << 30;
        let weights = models.into_iter().flat_map(weights);
        let all: Vec<u64> = weights.map(|weight| weight.bytes).collect();
        let total = all.iter().copied().fold(OTHERS, u64::saturating_add);
        let largest = all.into_iter().max().unwrap_or(0);
        let run = largest.saturating_mul(4).saturating_add(values as u64).saturating_add(OTHERS);
        let at_once = usize::try_from(self.memory_bytes.saturating_sub(total) / run);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        at_once.map_or(processors, |at_once| at_once.clamp(1, processors))
    }
}

/// What a model needs more memory for than there is, if it does.
fn too_large((proto, folder): (&ModelProto, &Path), engine: Engine, memory: u64) -> Option<String> {
    let weights = |proto| weights(proto).filter(|weight: &Weight| weight.is_there(folder));
    let (need, weights) = match engine {
        Engine::Plan => {
            let all = weights(proto).map(|weight| weight.packed).fold(0, u64::saturating_add);
            (all, format!("its weights take {}", size_in_words(all)))
        }
        Engine::Nodes => match weights(proto).max_by_key(Weight::by_node) {
            Some(weight) => {
                let (name, bytes) = (quoted(weight.name), size_in_words(weight.bytes));
                let all = weight.by_node();
                let words = if weight.takes_parts() {
                    let parts = size_in_words(all);
                    format!("parts of its weight {name}, which has {bytes}, take {parts}")
                } else {
                    format!("its weight {name} takes {bytes}, as much again to compute with it")
                };
                (all, words)
            }
            None => (0, "its graph has no weights".into()),
        },
    };
    let all = need.saturating_add(PROGRAM);
    let [program, least, there] = [PROGRAM, all, memory].map(size_in_words);
    (all > memory).then(|| {
        format!(
            "{weights}, and the program {program}: {least} at least, \
             which is more than the {there} of --max-memory"
        )
    })
}

/// A weight, as its head describes it.
struct Weight<'a> {
    held: &'a TensorProto,
    name: &'a str,
    /// As a tensor.
    bytes: u64,
    /// As the file has it.
    packed: u64,
    is_read_in_parts: bool,
}

impl Weight<'_> {
    /// Whether there is as much data as the head says: whatever reads it says so if there is not.
    fn is_there(&self, folder: &Path) -> bool {
        let entry = |key: &str| {
            self.held.external_data.iter().find(|entry| entry.key == key).map(|entry| &*entry.value)
        };
        match (entry("location"), entry("length")) {
            (Some(_), Some(length)) => length.parse() == Ok(self.packed),
            (Some(location), None) => {
                let held = folder.join(location).metadata();
                held.is_ok_and(|held| held.len() >= self.packed)
            }
            // A number of eight bytes may be written in one.
            (None, _) => self.packed / 8 <= self.held.encoded_len() as u64,
        }
    }

    /// What it takes while a node runs that takes it: itself, and the copy that is computed with.
    fn by_node(&self) -> u64 {
        if self.takes_parts() { PARTS } else { self.bytes.saturating_mul(2) }
    }

    /// Whether parts of it are there at a time, which take less than all of it.
    fn takes_parts(&self) -> bool {
        self.is_read_in_parts && self.bytes.saturating_mul(2) > PARTS
    }
}

/// The weights of a model, of which strings are none.
fn weights(proto: &ModelProto) -> impl Iterator<Item = Weight<'_>> {
    let held = proto.graph.iter().flat_map(|graph| &graph.initializer);
    held.filter_map(|held: &TensorProto| {
        let ty = ElementType::from_id(held.data_type)?;
        let width = ty.carrier_bytes().unwrap_or(0) as u64;
        let dims = held.dims.iter().map(|dim| u64::try_from(*dim).unwrap_or(0));
        let elements = dims.fold(1, u64::saturating_mul);
        let bytes = elements.saturating_mul(width);
        let packed = elements.saturating_mul(u64::from(ty.bits())).div_ceil(8);
        let is_read_in_parts =
            held.dims.len() == 2 && !held.external_data.is_empty() && bytes >= IN_PARTS;
        Some(Weight { held, name: &held.name, bytes, packed, is_read_in_parts })
    })
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::external_data;
    use tract_onnx::pb::GraphProto;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn model(weights: &[(ElementType, &[i64])]) -> ModelProto {
        let initializer = weights.iter().map(|(ty, dims)| {
            let bits = dims.iter().product::<i64>() as u64 * u64::from(ty.bits());
            TensorProto {
                name: "w".into(),
                data_type: *ty as i32,
                dims: dims.to_vec(),
                external_data: external_data("w.data", 0, bits / 8),
                ..TensorProto::default()
            }
        });
        let graph = GraphProto { initializer: initializer.collect(), ..GraphProto::default() };
        ModelProto { graph: Some(graph), ..ModelProto::default() }
    }

    #[test]
    fn a_plan_holds_all_weights_and_a_node_its_own() {
        use ElementType::{Float, Float16, Int4};
        let folder = Path::new("");
        let kernels = model(&[(Float, &[1 << 26, 1, 1]), (Float16, &[1 << 26, 1, 1])]);
        let needs = |model: &ModelProto, engine| {
            let least = |memory: &u64| too_large((model, folder), engine, *memory).is_none();
            (1..).map(|eighths| eighths * GIB / 8).find(least)
        };
        // 256 and 128 MiB, and the program.
        assert_eq!(needs(&kernels, Engine::Plan), Some(GIB * 6 / 8));
        assert_eq!(needs(&kernels, Engine::Nodes), Some(GIB * 7 / 8));
        // A node takes parts of a matrix.
        let matrix = model(&[(Float, &[1 << 15, 1 << 15]), (Int4, &[1 << 15, 1 << 15])]);
        assert_eq!(needs(&matrix, Engine::Plan), Some(GIB * 39 / 8));
        assert_eq!(needs(&matrix, Engine::Nodes), Some(GIB * 3 / 8));
        let told = too_large((&kernels, folder), Engine::Nodes, GIB / 2);
        let expected = "its weight `w` takes 256.0 MiB, as much again to compute with it, and the program 320.0 MiB: \
                        832.0 MiB at least, which is more than the 512.0 MiB of --max-memory";
        assert_eq!(told.as_deref(), Some(expected));
        let told = too_large((&matrix, folder), Engine::Nodes, GIB / 4);
        let expected = "parts of its weight `w`, which has 1.0 GiB, take 64.0 MiB, and the program 320.0 MiB: \
                        384.0 MiB at least, which is more than the 256.0 MiB of --max-memory";
        assert_eq!(told.as_deref(), Some(expected));
        // What the head says is not there.
        let mut lie = model(&[(Float, &[1 << 40])]);
        lie.graph.as_mut().expect("a graph").initializer[0].external_data.clear();
        assert_eq!(needs(&lie, Engine::Plan), Some(GIB * 3 / 8));
    }
}
