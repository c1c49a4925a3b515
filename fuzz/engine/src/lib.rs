//! What the targets link: libFuzzer. It is apart from them, because its build asks for features of
//! a crate that tract's build has as well: in one workspace, tract would be compiled once more for
//! it.
