//! What was found out, for others to read: one page, JUnit's XML.

mod figures;
mod junit;
mod page;

pub(crate) use self::junit::junit;
pub(crate) use self::page::page;
