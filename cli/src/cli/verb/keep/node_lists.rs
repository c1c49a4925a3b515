//! Lists of nodes to keep in FLOAT, as converters take them.

use serde::{Serialize, Serializer};

use super::quantized::scheme::Scheme;

/// The same list for each converter.
pub(crate) struct NodeLists(Vec<ForConverter>);

/// The list as one converter takes it.
struct ForConverter {
    /// What `--json` calls the converter, and what people do.
    key: &'static str,
    title: &'static str,
    /// Empty where it has no such option.
    text: String,
}

impl NodeLists {
    /// Of a conversion to the type that `--to` names.
    pub(crate) fn of(names: &[&str], to: &str) -> NodeLists {
        let list =
            |key, title, text: &str| ForConverter { key, title, text: text.trim().to_owned() };
        // A JSON string is one of Python's.
        let quoted = names.iter().map(|name| serde_json::Value::from(*name).to_string());
        let quoted = quoted.collect::<Vec<_>>().join(", ");
        // Of ModelOpt, regular expressions.
        let patterns = option("--nodes_to_exclude", names, |name| format!("^{}$", escaped(name)));
        NodeLists(if let Some(scheme) = Scheme::of(to) {
            let excluded = format!("nodes_to_exclude=[{quoted}]");
            let pass = scheme.olive.map_or(String::new(), |pass| format!("{pass}: {excluded}"));
            vec![
                list("onnxruntime", "ONNX Runtime", &format!("{}, {excluded})", scheme.call)),
                list("modelopt", "ModelOpt", &format!("{} {patterns}", scheme.mode)),
                list("olive", "Olive", &pass),
            ]
        } else {
            let blocked = format!("node_block_list=[{quoted}]");
            let mode =
                if to == "BFLOAT16" { "--low_precision_type bf16 --keep_io_types " } else { "" };
            let layers = option("--precision-constraints obey --layer-precisions", names, |name| {
                format!("{name}:float32")
            });
            let polygraphy = "Polygraphy (TensorRT 10; 11 has no such constraints)";
            vec![
                list("onnxconverter_common", "onnxconverter-common", &blocked),
                list("olive", "Olive", &blocked),
                list("modelopt_autocast", "ModelOpt AutoCast", &format!("{mode}{patterns}")),
                list("polygraphy", polygraphy, &layers),
            ]
        })
    }

    /// A line for each converter.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let lists = self.0.iter().filter(|list| !list.text.is_empty());
        lists.map(|ForConverter { title, text, .. }| format!("{title}: {text}"))
    }
}

/// By the names that `--json` has for the converters.
impl Serialize for NodeLists {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|list| (list.key, &list.text)))
    }
}

/// An option with a word of a POSIX shell for each node; nothing without any.
fn option(option: &str, names: &[&str], word: impl Fn(&str) -> String) -> String {
    let words = names.iter().map(|name| format!(" '{}'", word(name).replace('\'', r"'\''")));
    if names.is_empty() { String::new() } else { option.to_owned() + &words.collect::<String>() }
}

/// A regular expression of Python's that is a name.
fn escaped(name: &str) -> String {
    let is_special = |c: char| "\\.^$*+?{}[]|()".contains(c);
    name.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_each_converter_reads_them() {
        let texts = |names: &[&str], to| {
            NodeLists::of(names, to).0.into_iter().map(|list| list.text).collect::<Vec<_>>()
        };
        let block_list = r#"node_block_list=["/norm/ReduceSum", "it's [a+b]\"c\\"]"#;
        let lists = texts(&["/norm/ReduceSum", "it's [a+b]\"c\\"], "FLOAT16");
        assert_eq!(
            lists,
            [
                block_list,
                block_list,
                r#"--nodes_to_exclude '^/norm/ReduceSum$' '^it'\''s \[a\+b\]"c\\$'"#,
                r#"--precision-constraints obey --layer-precisions '/norm/ReduceSum:float32' 'it'\''s [a+b]"c\:float32'"#,
            ]
        );
        assert_eq!(texts(&[], "FLOAT16"), ["node_block_list=[]", "node_block_list=[]", "", ""]);
        let bfloat16 = "--low_precision_type bf16 --keep_io_types --nodes_to_exclude '^a$'";
        assert_eq!(texts(&["a"], "BFLOAT16")[2], bfloat16);
        assert_eq!(texts(&[], "INT4")[1], "--quantize_mode=int4");
    }
}
