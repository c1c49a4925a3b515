//! `onnx-cast inspect`: a model's Cast and CastLike nodes.

use serde::Serialize;
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastNode, ElementType, RoundMode};

use super::InspectArgs;
use super::message::single_line;
use super::model::check_file;
use super::show::table;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    casts: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    node: &'a str,
    op: &'static str,
    from: Option<&'static str>,
    to: Option<&'static str>,
    version: i64,
    saturate: Option<i64>,
    round_mode: Option<&'static str>,
    graph: &'a str,
}

/// Lists the nodes.
pub(super) fn show(args: &InspectArgs) -> TractResult<String> {
    check_file(&args.model)?;
    let onnx = tract_onnx_cast::onnx();
    let proto = onnx.proto_model_for_path(&args.model)?;
    let casts = onnx.casts(&proto, args.model.parent())?;
    Ok(if args.json {
        serde_json::to_string(&Report { casts: casts.iter().map(row).collect() })?
    } else if casts.is_empty() {
        "no Cast and no CastLike".into()
    } else {
        let heads =
            ["node", "op", "from", "to", "version", "saturate", "round_mode", "graph", "fate"];
        let heads = heads.map(String::from).to_vec();
        table(&[heads].into_iter().chain(casts.iter().map(cells)).collect::<Vec<_>>())
    })
}

fn row(cast: &CastNode) -> Row<'_> {
    Row {
        node: &cast.node,
        op: cast.operator.name(),
        from: cast.from.map(ElementType::name),
        to: cast.to.map(ElementType::name),
        version: cast.version,
        saturate: cast.saturate,
        round_mode: cast.round_mode.map(RoundMode::name),
        graph: &cast.graph,
    }
}

fn cells(cast: &CastNode) -> Vec<String> {
    let row = row(cast);
    let or = |text: Option<&str>, otherwise: &str| text.unwrap_or(otherwise).to_owned();
    vec![
        single_line(row.node),
        row.op.into(),
        or(row.from, "?"),
        or(row.to, "?"),
        row.version.to_string(),
        or(row.saturate.map(|value| value.to_string()).as_deref(), "-"),
        or(row.round_mode, "-"),
        single_line(row.graph),
        cast.fate.to_string(),
    ]
}
