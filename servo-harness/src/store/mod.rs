//! The two stored formats: the journal of a survey, and recordings kept beside the tests.

pub mod artefact;
pub mod journal;
