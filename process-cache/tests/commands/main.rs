//! Tests of `pcache` from a user's view. The built binary runs real commands in temporary
//! directories, and their effects are compared with those of the plain commands.
//!
//! All tests are one program, so that the sandbox is compiled once; each concern has a file.

mod assumed;
mod attributes;
mod command_line;
mod descriptors;
mod effects;
mod file_times;
mod foreign;
mod hits;
mod limits;
mod links;
mod lookups;
mod misses;
mod moments;
mod mounts;
mod moved_directories;
mod namespaces;
mod outsiders;
mod partial_changes;
mod places;
mod privileges;
mod processes;
mod races;
mod remote;
mod static_programs;
mod streams;
mod support;
mod terminals;
mod time;
mod tool_calls;
mod tools;
mod uncacheable;
mod verify;
mod why;
