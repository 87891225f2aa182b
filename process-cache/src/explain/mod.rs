//! Explains why units ran again, as text and as a page.

pub mod page;
pub mod why;
