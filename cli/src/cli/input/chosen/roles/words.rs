//! Which words an input of strings is drawn from.

use onnx_cast_graph::Node;

use super::consumers::Meeting;

/// Words that are told apart by what is right for one language, one case or one width alone.
const WORDS: [&str; 10] =
    ["", "a", "A", "word", "two words", "café", "Straße", "日本語", "\u{1f642}", "0"];
/// How many words of a model's own are drawn from.
const OWN: usize = 256;

impl Meeting<'_> {
    /// The words that the node knows, and others; `None` where it takes no words, or numbers in
    /// them.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        let Meeting { graph, node, place, .. } = *self;
        let mut own = of_attributes(node);
        let other = node.input(1 - place.min(1)).filter(|_| node.op_type == "Equal");
        if let Some(held) = other.and_then(|other| graph.constant(other)) {
            own.extend(held.string_data.iter().map(|word| in_words(word)));
        }
        let takes_words = matches!(
            node.op_type.as_str(),
            "Equal" | "StringNormalizer" | "StringSplit" | "StringConcat" | "RegexFullMatch"
        );
        if own.is_empty() && !takes_words {
            return None;
        }
        own.truncate(OWN);
        own.extend(WORDS.map(str::to_owned));
        Some(own)
    }
}

fn of_attributes(node: &Node) -> Vec<String> {
    let is_list = |name: &str| {
        matches!(name, "keys_strings" | "classlabels_strings" | "cats_strings" | "pool_strings")
    };
    let lists = node.attributes.iter().filter(|attribute| is_list(&attribute.name));
    lists.flat_map(|attribute| attribute.strings.iter().map(|word| in_words(word))).collect()
}

fn in_words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
