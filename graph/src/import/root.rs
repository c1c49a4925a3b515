//! Bodies beside the main graph that no node holds: what functions are made of.

use std::sync::Arc;

use tract_onnx::pb::{GraphProto, NodeProto};

use super::{Reader, Region, Step};
use crate::Graph;
use crate::arena::{BodyId, NodeId};
use crate::body::Body;
use crate::names::Misnamed;

impl Graph {
    /// Reads a graph of its own beside the main one, such as the body of a function, whose nodes
    /// are understood by `opset`. Returns its body, and what is wrong with its names. It is not
    /// part of [`Graph::export`].
    pub fn import_root(
        &mut self,
        proto: GraphProto,
        opset: i64,
        path: Arc<str>,
        step: Step,
    ) -> (BodyId, Vec<Misnamed>) {
        let body = self.bodies.add(Body::empty(&proto.name, path, None));
        let mut reader = Reader::new(self, step, Region::whole(opset));
        reader.body(body, proto);
        let problems = reader.problems;
        (body, problems)
    }

    /// The message of a body that [`Graph::import_root`] has made, which is empty from then on.
    pub fn export_root(
        &mut self,
        body: BodyId,
        mut finish: impl FnMut(NodeId, &mut NodeProto),
    ) -> GraphProto {
        self.export_body(body, &mut finish)
    }
}
