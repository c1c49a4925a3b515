//! What of a file contradicts itself as a whole, so that whoever reads it could take it for either:
//! refused by name.

use std::collections::HashMap;

use onnx_cast_graph::one_domain;
use tract_onnx::pb::{ModelProto, OperatorSetIdProto};

use crate::error::{Cause, Error};

/// Checks that a model, and each of its functions, imports a domain in one version and under one
/// name, and ONNX's own in a version that there is. Fails when it does not: by the one version ONNX
/// Runtime and by the other the package `onnx` would read the nodes.
pub(crate) fn check(proto: &ModelProto) -> Result<(), Error> {
    check_imports(&proto.opset_import)?;
    for function in &proto.functions {
        check_imports(&function.opset_import)?;
    }
    Ok(())
}

fn check_imports(imports: &[OperatorSetIdProto]) -> Result<(), Error> {
    let mut known: HashMap<&str, &OperatorSetIdProto> = HashMap::new();
    for import in imports {
        let domain = one_domain(&import.domain);
        if domain.is_empty() && import.version < 1 {
            let problem = format!("imports opset {}, and the first is 1", import.version);
            return Err(Cause::Model { problem }.into());
        }
        let Some(first) = known.insert(domain, import) else { continue };
        let problem = match (first.version == import.version, first.domain == import.domain) {
            (true, true) => continue,
            (_, false) => "imports ONNX's own domain twice, as `` and as `ai.onnx`".into(),
            (false, true) => {
                let (one, other) = (first.version, import.version);
                format!("imports domain `{}` in two versions, {one} and {other}", import.domain)
            }
        };
        return Err(Cause::Model { problem }.into());
    }
    Ok(())
}
