//! Programs that perform their lookups by themselves from their first
//! instruction on: all that holds for those that come to it later, and what is
//! particular to them.

#[path = "../in_process/calls.rs"]
mod calls;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
#[path = "../in_process/descriptors.rs"]
mod descriptors;
#[path = "../in_process/limits.rs"]
mod limits;
#[path = "../in_process/processes.rs"]
mod processes;
#[path = "../in_process/signals.rs"]
mod signals;
mod starts;
#[path = "../in_process/support.rs"]
mod support;
#[path = "../in_process/transfers.rs"]
mod transfers;

/// They begin with it.
const FROM_START: bool = true;

/// They are linked as usual.
const LINK: &[&str] = &[];
