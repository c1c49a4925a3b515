//! The commands, a file for each, in the process that the user started: what is asked of workers, and what is shown of their
//! answers. Nothing here runs a model.

mod ask_all;
pub(crate) mod audit;
pub(crate) mod compare;
pub(crate) mod fix;
pub(crate) mod inspect;
pub(crate) mod keep;
pub(crate) mod record;
pub(crate) mod rerecord;
pub(crate) mod run;
pub(crate) mod test;
