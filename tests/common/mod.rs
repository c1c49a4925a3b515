//! What several test binaries need: elements as codes, models in the making, cases in folders, the
//! machine.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod cases;
pub mod doubled;
pub mod elements;
pub mod hostile;
pub mod machine;
pub mod proto;
