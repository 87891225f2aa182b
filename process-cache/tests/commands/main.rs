//! `pcache` as its users see it: the built binary runs real commands in
//! temporary directories, and what it leaves is compared with what the plain
//! commands leave.
//!
//! One program for all of them, so that the sandbox is compiled once; a file
//! for each concern.

mod assumed;
mod command_line;
mod descriptors;
mod effects;
mod foreign;
mod hits;
mod limits;
mod lookups;
mod misses;
mod places;
mod privileges;
mod processes;
mod races;
mod remote;
mod streams;
mod support;
mod terminals;
mod time;
mod tools;
mod uncacheable;
mod verify;
mod why;
