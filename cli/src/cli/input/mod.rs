//! What models run on: tensors from files (`given`, `files`, `npy`, `array`), from test cases
//! (`cases`, `sets`), from many samples (`samples`), and outputs that were saved (`saved`,
//! `polygraphy`). What nobody gives is `chosen` by what its `source` shows, in the `declared` types
//! and `sizes`, and a `recipe` makes one set of all. `args` is what can be typed of them.

pub(crate) mod args;
pub(crate) mod array;
pub(crate) mod cases;
pub(crate) mod chosen;
pub(crate) mod declared;
pub(crate) mod files;
pub(crate) mod given;
pub(crate) mod npy;
mod polygraphy;
pub(crate) mod recipe;
mod samples;
pub(crate) mod saved;
pub(crate) mod sets;
pub(crate) mod sizes;
pub(crate) mod source;
