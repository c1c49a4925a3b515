//! What models run on: tensors from files (`files`, `npy`), from test cases (`cases`, `sets`), at
//! random (`random`), and outputs that were saved (`saved`). What nobody gives is chosen (`made_up`) by what takes it (`roles`): sizes
//! (`size_plan`) and values (`values`).

pub(crate) mod array;
pub(crate) mod cases;
pub(crate) mod declared;
pub(crate) mod files;
pub(crate) mod given;
mod made_up;
pub(crate) mod npy;
mod polygraphy;
pub(crate) mod random;
pub(crate) mod roles;
pub(crate) mod saved;
pub(crate) mod sets;
pub(crate) mod size_plan;
pub(crate) mod sizes;
pub(crate) mod values;
