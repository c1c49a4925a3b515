//! What every operator of ours needs.
//!
//! - `register`: which operators are ours in a loader; `stock`: tract's own
//! - `hook`: one of ours beside tract's; `hooked`: both in one, where the types decide
//! - `checked`: every operator, compared with what it takes, and with what may be made of
//!   constants; `operands`: those that tract reads without a look at their shape
//! - `around`: one operator around another, as `hook`, `checked` and `operands` put them
//! - `claimed`: what keeps a node whose value is known
//! - `label`: names for messages; `integers`: elements of any integer type; `element_wise`: what
//!   operators that are alike have in common; `saved`: an operator's parameters in a file
//! - `at_opset`: nodes of another opset than the model's; `measured`: shapes that are numbers when
//!   the model runs
//! - `open_shapes`: shapes that a model leaves open

pub(crate) mod around;
pub(crate) mod at_opset;
pub(crate) mod checked;
pub(crate) mod claimed;
pub(crate) mod element_wise;
pub(crate) mod hook;
pub(crate) mod hooked;
pub(crate) mod integers;
pub(crate) mod label;
pub(crate) mod measured;
pub(crate) mod open_shapes;
pub(crate) mod operands;
pub(crate) mod register;
pub(crate) mod saved;
pub(crate) mod stock;
