//! Long checks: real and random programs under the tools, compared with plain runs.

pub(crate) mod conformance;
pub(crate) mod corpus;
pub(crate) mod differential;
pub(crate) mod errors;
pub(crate) mod fidelity;
pub(crate) mod flaky;
pub(crate) mod kills;
pub(crate) mod pcache_kills;
pub(crate) mod servo;
pub(crate) mod states;
pub(crate) mod subject;
pub(crate) mod survey;
pub(crate) mod tantivy;
