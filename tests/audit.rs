//! What an audit counts, against a count that shares no code with it.

mod common;

use common::{SplitMix64, Typed, tensor_of_codes};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{self, Outcome};
use tract_onnx_cast::{Conversion, ElementType, Family, RoundMode, Rules};
