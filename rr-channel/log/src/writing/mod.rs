//! Writes a thread's log: [`Hot`] counts expected events, and [`Writer`] writes all others.

mod hot;
mod mapping;
mod writer;

pub use hot::Hot;
pub use mapping::may_be_as_long;
pub use writer::Writer;
#[cfg(test)]
pub(crate) use writer::tests;
