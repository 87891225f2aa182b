//! Settings of a run.

use std::sync::Arc;

use crate::key::KeyMaker;
use crate::policy::config::Config;
use crate::relocation::Relocation;

/// How a session behaves.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether no assumptions are made about programs.
    pub strict: bool,
    /// Whether results are recorded without a lookup.
    pub refresh: bool,
    /// Whether results are compared with the recorded ones.
    pub verify: bool,
    /// Whether results are looked up and not recorded.
    pub read_only: bool,
    /// Whether every lookup stops, so that no call is unstopped.
    pub stops_only: bool,
    /// The user's configuration.
    pub config: Arc<Config>,
    /// Finds and stores results for other directories, if base directories are configured.
    pub relocation: Option<Arc<Relocation>>,
}

impl Settings {
    /// Creates the maker of keys with these settings.
    pub fn key_maker(&self) -> Arc<KeyMaker> {
        let base_dirs = self.relocation.as_ref().map(|it| it.base_dirs().clone());
        Arc::new(KeyMaker::new(self.config.clone(), base_dirs))
    }
}
