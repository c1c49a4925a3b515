//! Lists of nodes to keep in FLOAT, as converters take them.

use serde::Serialize;

use super::quantized::scheme::Scheme;

/// The same list for each converter.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum NodeLists {
    /// To half precision.
    Half(HalfLists),
    /// To few bits.
    Quantized(QuantizedLists),
}

impl NodeLists {
    /// Of a conversion to the type that `--to` names.
    pub(crate) fn of(names: &[&str], to: &str) -> NodeLists {
        match Scheme::of(to) {
            Some(scheme) => NodeLists::Quantized(QuantizedLists::of(names, &scheme)),
            None => NodeLists::Half(HalfLists::of(names, to == "BFLOAT16")),
        }
    }

    /// A line for each converter.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            NodeLists::Half(lists) => lists.lines().into(),
            NodeLists::Quantized(lists) => lists.lines(),
        }
    }
}

/// The list for those that quantise.
#[derive(Debug, Serialize)]
pub(crate) struct QuantizedLists {
    /// A call of `quantize_static`, or of `MatMulNBitsQuantizer`.
    onnxruntime: String,
    /// Options of `python -m modelopt.onnx.quantization`: regular expressions, quoted for a shell.
    modelopt: String,
    /// A pass and its option; empty where it has no such pass.
    olive: String,
}

impl QuantizedLists {
    fn of(names: &[&str], scheme: &Scheme) -> QuantizedLists {
        let list = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let list = format!("nodes_to_exclude=[{list}]");
        let (call, mode, pass) = scheme.converters();
        QuantizedLists {
            onnxruntime: format!("{call}, {list})"),
            modelopt: format!("{mode}{}", patterns(names)),
            olive: pass.map_or_else(String::new, |pass| format!("{pass}: {list}")),
        }
    }

    fn lines(&self) -> Vec<String> {
        let QuantizedLists { onnxruntime, modelopt, olive } = self;
        let olive = (!olive.is_empty()).then(|| format!("Olive: {olive}"));
        let others = [format!("ONNX Runtime: {onnxruntime}"), format!("ModelOpt: {modelopt}")];
        others.into_iter().chain(olive).collect()
    }
}

/// ModelOpt's option for these nodes, if there are any.
fn patterns(names: &[&str]) -> String {
    let pattern = |name: &&str| for_shell(&format!("^{}$", escaped(name)));
    match names {
        [] => String::new(),
        _ => {
            let all: Vec<String> = names.iter().map(pattern).collect();
            format!(" --nodes_to_exclude {}", all.join(" "))
        }
    }
}

/// The list for those that convert to half precision.
#[derive(Debug, Serialize)]
pub(crate) struct HalfLists {
    /// An argument of `convert_float_to_float16`.
    onnxconverter_common: String,
    /// An option of the pass `OnnxFloatToFloat16`.
    olive: String,
    /// Options of `python -m modelopt.onnx.autocast`: regular expressions, quoted for a shell.
    modelopt_autocast: String,
    /// Options of `polygraphy run --trt`, quoted for a shell.
    polygraphy: String,
}

impl HalfLists {
    /// Of a conversion to BFLOAT16 if that is so, else to FLOAT16.
    fn of(names: &[&str], is_bfloat16: bool) -> HalfLists {
        let list = |quote: fn(&str) -> String, separator: &str| {
            names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(separator)
        };
        // A JSON string is one of Python's.
        let block_list = format!("node_block_list=[{}]", list(quoted, ", "));
        let option = |text: &str, quote: fn(&str) -> String| match names {
            [] => String::new(),
            _ => format!("{text} {}", list(quote, " ")),
        };
        let excluded = patterns(names);
        let excluded = excluded.trim_start();
        HalfLists {
            olive: block_list.clone(),
            onnxconverter_common: block_list,
            modelopt_autocast: if is_bfloat16 {
                let options = format!("--low_precision_type bf16 --keep_io_types {excluded}");
                options.trim_end().into()
            } else {
                excluded.into()
            },
            polygraphy: option("--precision-constraints obey --layer-precisions", |name| {
                for_shell(&format!("{name}:float32"))
            }),
        }
    }

    fn lines(&self) -> [String; 4] {
        let HalfLists { onnxconverter_common, olive, modelopt_autocast, polygraphy } = self;
        [
            format!("onnxconverter-common: {onnxconverter_common}"),
            format!("Olive: {olive}"),
            format!("ModelOpt AutoCast: {modelopt_autocast}"),
            format!("Polygraphy (TensorRT 10; 11 has no such constraints): {polygraphy}"),
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
        let lists = HalfLists::of(&["/norm/ReduceSum", "it's [a+b]\"c\\"], false);
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
        assert_eq!(HalfLists::of(&[], false).onnxconverter_common, "node_block_list=[]");
        let bfloat16 = HalfLists::of(&["a"], true).modelopt_autocast;
        assert_eq!(bfloat16, "--low_precision_type bf16 --keep_io_types --nodes_to_exclude '^a$'");
    }
}
