//! Settings of a run.

use std::sync::Arc;

use crate::key::KeyMaker;
use crate::policy::config::Config;
use crate::relocation::Relocation;

/// How a session behaves.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Nothing is assumed about programs.
    pub strict: bool,
    /// Results are not looked up, only recorded.
    pub refresh: bool,
    /// They are compared with what is recorded.
    pub verify: bool,
    /// Results are looked up, not recorded.
    pub read_only: bool,
    /// Every lookup stops: none is performed and logged in the tracee.
    pub stops_only: bool,
    /// The user's configuration.
    pub config: Arc<Config>,
    /// Finds and stores results for other places, where there are base directories.
    pub relocation: Option<Arc<Relocation>>,
}

impl Settings {
    /// The maker of keys with these settings.
    pub fn key_maker(&self) -> Arc<KeyMaker> {
        let base_dirs = self.relocation.as_ref().map(|it| it.base_dirs().clone());
        Arc::new(KeyMaker::new(self.config.clone(), base_dirs))
    }
}
