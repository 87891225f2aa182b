//! Reports of the results: a table, one page, JUnit's XML.

mod figures;
mod junit;
mod page;
pub mod summary;

pub(crate) use self::junit::junit;
pub(crate) use self::page::page;
