//! Calls that tracees perform in process: nothing changes for the program, and no call is
//! lost or reported twice.
//!
//! A program runs untraced, with stops only, and with the mechanism. What it
//! writes must be the same, and so must the calls that were seen.

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod descriptors;
mod late;
mod limits;
mod processes;
mod signals;
mod support;
mod transfers;

/// Programs come to it when they have made many lookups.
const FROM_START: bool = false;

/// They are linked as usual.
const LINK: &[&str] = &[];
