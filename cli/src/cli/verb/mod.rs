//! The verbs: a file or a folder each, with its arguments, its run in the user's process, its work
//! in a worker's, and what it shows; and the one list of them.
//!
//! A new verb is a file with a type that clap reads and that is a [`Verb`], its `Request`, and a
//! row of `verbs!`. `shell` has the two that ask nothing of a worker.

pub(crate) mod audit;
pub(crate) mod compare;
mod convert;
mod fix;
mod inspect;
pub(crate) mod keep;
pub(crate) mod record;
mod reduce;
mod rerecord;
pub(crate) mod run;
mod shell;
mod test;

use clap::Subcommand;

use crate::cli::args::resources::Resources;
use crate::cli::found::status::Status;
use crate::cli::process::request::Request;
use crate::cli::process::worker::{Answerer, reply_to};
use crate::cli::report::terminal::Output;

/// A verb: what can be typed after it, read by clap.
pub(crate) trait Verb {
    /// What it asks of a worker.
    type Request: Request;

    /// Does what was typed, in the process that the user started. Nothing here runs a model.
    /// Fails when the call, the model or an input cannot be used.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status>;
}

macro_rules! verbs {
    ($($module:ident::$name:ident),* $(,)?) => {
        /// What was typed after the program's name.
        #[derive(Subcommand)]
        pub(crate) enum AnyVerb {
            $($name($module::$name),)*
            Completions(shell::Completions),
            Man(shell::Man),
        }

        impl AnyVerb {
            /// As [`Verb::run`].
            pub(crate) fn run(self, to: Resources, output: &mut Output) -> anyhow::Result<Status> {
                match self {
                    $(AnyVerb::$name(verb) => verb.run(to, output),)*
                    AnyVerb::Completions(verb) => verb.run(output),
                    AnyVerb::Man(verb) => verb.run(output),
                }
            }
        }

        /// What a worker can be asked, by name.
        pub(crate) const ANSWERERS: &[Answerer] = &[
            $((
                <<$module::$name as Verb>::Request as Request>::NAME,
                reply_to::<<$module::$name as Verb>::Request>,
            )),*
        ];
    };
}

// What people come for first.
verbs! {
    compare::Compare,
    reduce::Reduce,
    keep::Keep,
    convert::Convert,
    audit::Audit,
    fix::Fix,
    run::Run,
    test::Test,
    inspect::Inspect,
    record::Record,
    rerecord::Rerecord,
}
