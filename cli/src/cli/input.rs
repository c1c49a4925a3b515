//! What models run on: tensors from files (`files`, `npy`), from test cases (`cases`, `sets`), at
//! random (`random`), and outputs that were saved (`saved`).

pub(crate) mod array;
pub(crate) mod cases;
pub(crate) mod declared;
pub(crate) mod files;
pub(crate) mod given;
pub(crate) mod npy;
mod polygraphy;
pub(crate) mod random;
pub(crate) mod saved;
pub(crate) mod sets;
pub(crate) mod sizes;
