//! What a case says of itself: what is wrong, the numbers, how to run it, the versions.

use tract_onnx::pb::ModelProto;

use super::part::Part;
use super::side::named_nodes;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{counted, listed, quoted, shortened, single_line};
use crate::cli::report::markdown::plain;

/// What there is to say of a case.
pub(super) struct CaseSummary {
    /// The models, as they were called.
    pub(super) models: Vec<String>,
    /// How many nodes the whole model has.
    pub(super) nodes: usize,
    /// What is wrong, a clause whose subject is the node.
    pub(super) finding: String,
    /// How it is seen: the options of `compare`, or the command.
    pub(super) how: String,
    pub(super) is_pair: bool,
}

/// The text of README.md.
pub(super) fn text(summary: &CaseSummary, part: &Part) -> String {
    let CaseSummary { models, nodes, finding, how, is_pair } = summary;
    let left = named_nodes(&part.model);
    let list = listed(left.iter().map(|(node, op)| format!("{} ({op})", quoted(node))), 8);
    let list = harmless(&list);
    let models: Vec<String> = models.iter().map(|model| harmless(&quoted(model))).collect();
    let finding = if *is_pair { finding.clone() } else { of_command(finding, part) };
    let finding = single_line(&finding);
    // What is wrong is the heading, and the numbers stand below it.
    let title = finding.split_once("; ").map_or(&*finding, |(what, _)| what);
    let mut lines = vec![format!("# {}", harmless(&shortened(title, 200))), String::new()];
    if title.len() < finding.len() {
        lines.extend([harmless(&shortened(&finding, 1000)), String::new()]);
    }
    let (count, added) = (left.len(), &part.added);
    lines.push(if *is_pair {
        format!(
            "`model.onnx` is {count} of {} of {}: {list}. {added}`reference.onnx` is what stands in their place in {}; both take the values that the reference has there.",
            counted(nodes, "node"),
            models.get(1).map_or("", String::as_str),
            models.first().map_or("", String::as_str),
        )
    } else {
        format!(
            "`model.onnx` is {count} of {} of {}: {list}. It takes the values that the whole model has there.",
            counted(nodes, "node"),
            models.join(", ")
        )
    });
    lines.push(String::new());
    if *is_pair {
        lines.push(format!("- Here: `onnx-cast compare reference.onnx model.onnx{how}`"));
        lines.push(
            "- As a test: `onnx-cast test .` fails, for the outputs are the reference's.".into(),
        );
    } else {
        lines.push(format!("- The command: `{}`", single_line(how)));
        lines.push("- The outputs in `test_data_set_0` are those of onnx-cast.".into());
    }
    lines.push(format!("- In ONNX Runtime: `{}`", ONNX_RUNTIME));
    lines.push(format!(
        "- Versions: onnx-cast {}, {}",
        env!("CARGO_PKG_VERSION"),
        versions(&part.model)
    ));
    lines.join("\n") + "\n"
}

/// A text in which names stand between backquotes. A hostile model may have any names, and one with
/// a backquote would go on as Markdown.
fn harmless(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let part = |(index, part): (usize, &&str)| {
        if index % 2 == 0 || index + 1 == parts.len() {
            plain(part)
        } else if part.is_empty() {
            String::new()
        } else {
            format!("`{part}`")
        }
    };
    parts.iter().enumerate().map(part).collect()
}

/// What a command does, of the nodes that it does it on.
pub(super) fn of_command(finding: &str, part: &Part) -> String {
    const MOST: usize = 3;
    let nodes = named_nodes(&part.model);
    let named = nodes.iter().take(MOST).map(|(node, op)| format!("`{node}` ({op})"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if nodes.len() > MOST { ", …" } else { "" };
    format!("{named}{more}: {finding}")
}

/// Runs the case in ONNX Runtime, and shows what it makes beside what is right.
const ONNX_RUNTIME: &str = "python -c \"import onnx, onnxruntime as ort; from glob import glob; load = lambda p: [onnx.numpy_helper.to_array(onnx.load_tensor(f'test_data_set_0/{p}_{i}.pb')) for i in range(len(glob(f'test_data_set_0/{p}_*.pb')))]; s = ort.InferenceSession('model.onnx'); print(s.run(None, dict(zip([i.name for i in s.get_inputs()], load('input')))), load('output'))\"";

fn versions(model: &ModelProto) -> String {
    let imports = model.opset_import.iter().map(|import| match &*import.domain {
        "" | "ai.onnx" => format!("opset {}", import.version),
        domain => format!("{} {}", harmless(&quoted(domain)), import.version),
    });
    let imports = imports.collect::<Vec<_>>().join(", ");
    format!("{imports}, IR version {}", model.ir_version)
}

/// A tolerance as options of `compare`.
pub(super) fn options(tolerance: Tolerance) -> String {
    tolerance.parts().map(|(name, part)| format!(" --{name} {part:e}")).collect()
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn names_end_no_code() {
        assert_eq!(harmless("`a_b` (Exp) is [1]"), "`a_b` (Exp) is &#91;1&#93;");
        assert_eq!(harmless("`a`@b` is"), "`a`&#64;\u{200b}b is");
        assert_eq!(harmless("`a`<img>`b` is"), "`a`&lt;img&gt;`b` is");
    }
}
