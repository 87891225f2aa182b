//! Static programs, whose call sites are patched in their memory before they begin: all
//! that holds for dynamic ones, and what is particular to them.

#[path = "../in_process/calls.rs"]
mod calls;
#[path = "../common/mod.rs"]
mod common;
#[path = "../in_process/descriptors.rs"]
mod descriptors;
#[path = "../in_process/processes.rs"]
mod processes;
#[path = "../in_process/signals.rs"]
mod signals;
mod sites;
#[path = "../in_process/support.rs"]
#[expect(dead_code, reason = "some of it is for dynamic programs")]
mod support;
#[path = "../in_process/transfers.rs"]
mod transfers;

/// They begin with it.
const FROM_START: bool = true;

/// They are linked statically.
const LINK: &[&str] = &["-static"];
