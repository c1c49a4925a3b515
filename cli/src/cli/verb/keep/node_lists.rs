//! Lists of nodes to keep in FLOAT, as converters take them.

use serde::Serialize;

/// The same list for each converter.
#[derive(Debug, Serialize)]
pub(crate) struct NodeLists {
    /// An argument of `convert_float_to_float16`.
    onnxconverter_common: String,
    /// An option of the pass `OnnxFloatToFloat16`.
    olive: String,
    /// Options of `python -m modelopt.onnx.autocast`: regular expressions, quoted for a shell.
    modelopt_autocast: String,
    /// Options of `polygraphy run --trt`, quoted for a shell.
    polygraphy: String,
}

impl NodeLists {
    /// Of a conversion to BFLOAT16 if that is so, else to FLOAT16.
    pub(crate) fn of(names: &[&str], is_bfloat16: bool) -> NodeLists {
        let list = |quote: fn(&str) -> String, separator: &str| {
            names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(separator)
        };
        // A JSON string is one of Python's.
        let block_list = format!("node_block_list=[{}]", list(quoted, ", "));
        let option = |text: &str, quote: fn(&str) -> String| match names {
            [] => String::new(),
            _ => format!("{text} {}", list(quote, " ")),
        };
        let excluded =
            option("--nodes_to_exclude", |name| for_shell(&format!("^{}$", escaped(name))));
        NodeLists {
            olive: block_list.clone(),
            onnxconverter_common: block_list,
            modelopt_autocast: if is_bfloat16 {
                let options = format!("--low_precision_type bf16 --keep_io_types {excluded}");
                options.trim_end().into()
            } else {
                excluded
            },
            polygraphy: option("--precision-constraints obey --layer-precisions", |name| {
                for_shell(&format!("{name}:float32"))
            }),
        }
    }

    /// A line for each converter.
    pub(crate) fn lines(&self) -> [String; 4] {
        let NodeLists { onnxconverter_common, olive, modelopt_autocast, polygraphy } = self;
        [
            format!("onnxconverter-common: {onnxconverter_common}"),
            format!("Olive: {olive}"),
            format!("ModelOpt AutoCast: {modelopt_autocast}"),
            format!("Polygraphy: {polygraphy}"),
        ]
    }
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// A regular expression of Python's that is a name.
fn escaped(name: &str) -> String {
    let is_special = |c: char| "\\.^$*+?{}[]|()".contains(c);
    name.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A word of a POSIX shell.
fn for_shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_each_converter_reads_them() {
        let lists = NodeLists::of(&["/norm/ReduceSum", "it's [a+b]\"c\\"], false);
        assert_eq!(
            lists.onnxconverter_common,
            r#"node_block_list=["/norm/ReduceSum", "it's [a+b]\"c\\"]"#
        );
        assert_eq!(
            lists.modelopt_autocast,
            r#"--nodes_to_exclude '^/norm/ReduceSum$' '^it'\''s \[a\+b\]"c\\$'"#
        );
        assert_eq!(
            lists.polygraphy,
            r#"--precision-constraints obey --layer-precisions '/norm/ReduceSum:float32' 'it'\''s [a+b]"c\:float32'"#
        );
        assert_eq!(NodeLists::of(&[], false).onnxconverter_common, "node_block_list=[]");
        let bfloat16 = NodeLists::of(&["a"], true).modelopt_autocast;
        assert_eq!(bfloat16, "--low_precision_type bf16 --keep_io_types --nodes_to_exclude '^a$'");
    }
}
