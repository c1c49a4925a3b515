//! `onnx-cast inspect`: a model's Cast and CastLike nodes.

use anyhow::bail;
use serde::Serialize;

use crate::cli::args::inspect::InspectArgs;
use crate::cli::judge::status::Status;
use crate::cli::message::single_line;
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::phrases;
use crate::cli::report::table::table;
use crate::cli::report::terminal::{Output, print_note};
use crate::cli::work::inspect::{
    DeclaredCast, InspectRequest, Inspected, InspectedCast, InspectedWidening,
};

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    casts: Vec<&'a DeclaredCast>,
    /// Left out where there are none: most models compute in the types that they say.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    computed_in_float: &'a [InspectedWidening],
}

const HEADS: [&str; 9] =
    ["node", "op", "from", "to", "version", "saturate", "round_mode", "graph", "fate"];

/// Lists the nodes.
///
/// # Errors
///
/// When the model cannot be read, or, the list written, when a cast is wrong.
pub(crate) fn inspect(
    args: InspectArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let request = InspectRequest { model: args.model };
    let inspected = Supervisor::new(max_memory).ask(&request)?.about(&request.model)?;
    let Inspected { casts, widened, wrong_casts, others } = inspected;
    output.line(&if args.json {
        let casts = casts.iter().map(|cast| &cast.declared).collect();
        serde_json::to_string(&Report { casts, computed_in_float: &widened })?
    } else if casts.is_empty() {
        phrases::NO_CASTS.into()
    } else {
        let heads = HEADS.map(String::from).to_vec();
        table(&[heads].into_iter().chain(casts.iter().map(row)).collect::<Vec<_>>())
    })?;
    if !args.json {
        phrases::computed_in_float(&widened).iter().try_for_each(|line| output.line(line))?;
    }
    let path = request.model.display();
    for problem in &others {
        print_note(&format!("{path}: cannot be run: {problem}"));
    }
    let Some((first, more)) = wrong_casts.split_first() else { return Ok(Status::Passed) };
    for problem in more {
        print_note(&format!("{path}: {problem}"));
    }
    bail!("{path}: {first}")
}

fn row(cast: &InspectedCast) -> Vec<String> {
    let InspectedCast { declared, fate } = cast;
    let or_none = |text: Option<String>| text.unwrap_or("-".into());
    vec![
        single_line(&declared.node),
        declared.op.clone(),
        phrases::type_name(&declared.from).into(),
        phrases::type_name(&declared.to).into(),
        declared.version.to_string(),
        or_none(declared.saturate.map(|value| value.to_string())),
        or_none(declared.round_mode.clone()),
        single_line(&declared.graph),
        fate.clone(),
    ]
}
