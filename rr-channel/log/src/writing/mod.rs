//! Writes a thread's log: [`Hot`] counts expected events, and [`Writer`] writes all others. Beside
//! it, [`ClockWriter`] writes what the thread reads from clocks.

mod clocks;
mod hot;
mod mapping;
mod writer;

pub use clocks::ClockWriter;
pub use hot::Hot;
pub use mapping::may_be_as_long;
pub use writer::Writer;
#[cfg(test)]
pub(crate) use writer::tests;
