//! What is chosen of inputs that nobody gives (`made_up`): what they are taken for (`roles`), their
//! sizes (`size_plan`) and their values (`random`, `values`); at what `price` they run, and a
//! `search` that `change`s them.

pub(crate) mod change;
pub(super) mod made_up;
pub(crate) mod price;
pub(super) mod random;
pub(super) mod roles;
pub(crate) mod search;
pub(super) mod size_plan;
pub(crate) mod values;
