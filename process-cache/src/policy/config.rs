//! The configuration file: a user's knowledge of programs and paths.
//!
//! The file is `$PCACHE_CONFIG`, or `pcache/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`. An
//! unreadable file or an unknown key is an error: an input must not silently stop being one, or
//! the reverse. `--strict` ignores everything in it except the limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::model::fact::Query;
use crate::model::limits::Limits;
use crate::model::outcome::Ending;

/// A commented file with all keys.
pub const EXAMPLE: &str = r#"# Configuration of pcache. Everything here is optional.

# Variables that do not count, in addition to the few that never do. A name, or its
# beginning with a star. They are not removed: programs see them as ever.
ignore_variables = []                 # ["BUILD_NUMBER", "CI_JOB_*"]

# Programs that always run, and whatever starts them: a name or a path.
uncacheable = []                      # ["deploy", "/opt/licence/check"]

# Places that are taken to be as they were, whatever is changed there: what is read
# below them is not looked at again. A compiler that is never changed in place, say.
constant_paths = []                   # ["/opt/toolchain-1.2"]

# Directories whose place does not count: results of one checkout are found in another.
# `worktree` (the checkout that a command is run in), or a name and a directory.
roots = []                            # ["worktree", "home=/home/me"]

# Programs that take less (in milliseconds) are not stored by themselves.
min_time_ms = 3

# Whether programs are stored that end with another exit status than 0, or by a signal of
# their own: probes of `configure`, `grep` without a match, compilers that report errors.
store_failures = true

# How much the store may hold, and for how many days it keeps what nobody uses.
max_size = "10G"
max_age_days = 60
"#;

/// The contents of the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Names of variables that do not count.
    pub ignore_variables: Vec<String>,
    /// Programs that always run.
    pub uncacheable: Vec<String>,
    /// Directories whose content is constant.
    pub constant_paths: Vec<PathBuf>,
    /// Directories whose location does not count.
    pub roots: Vec<String>,
    /// Shorter units are not stored (ms).
    pub min_time_ms: Option<u64>,
    /// Whether failing units are stored; they are if absent.
    pub store_failures: Option<bool>,
    /// Bytes, with a unit.
    pub max_size: Option<String>,
    /// Days.
    pub max_age_days: Option<u64>,
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the configuration {}: {why}", path.display())]
pub struct ConfigError {
    path: PathBuf,
    why: String,
}

impl Config {
    /// Returns the path of the file; `None` if no variable gives it.
    pub fn path() -> Option<PathBuf> {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        var("PCACHE_CONFIG").map(PathBuf::from).or_else(|| {
            var("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .filter(|dir| dir.is_absolute())
                .or_else(|| var("HOME").map(|home| Path::new(&home).join(".config")))
                .map(|dir| dir.join("pcache/config.toml"))
        })
    }

    /// Reads the file; a missing file gives the defaults.
    ///
    /// # Errors
    /// Fails if it cannot be read, or has an unknown key.
    pub fn load() -> Result<Self, ConfigError> {
        let Some(path) = Self::path() else {
            return Ok(Self::default());
        };
        let error = |why: String| ConfigError {
            path: path.clone(),
            why,
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(found) if found.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            // Another user's home directory, as after setpriv(1).
            Err(_) if Self::is_out_of_reach(&path) => return Ok(Self::default()),
            Err(found) => return Err(error(found.to_string())),
        };
        Self::parse(&text).map_err(error)
    }

    /// Whether no variable of pcache names the file, and its directory cannot be searched.
    fn is_out_of_reach(path: &Path) -> bool {
        let refused = std::fs::symlink_metadata(path).err();
        let refused = refused.is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied);
        refused && std::env::var_os("PCACHE_CONFIG").is_none_or(|given| given.is_empty())
    }

    /// Whether a unit with this ending may be stored.
    pub fn stores(&self, ending: Ending) -> bool {
        ending == Ending::Exited(0) || self.store_failures != Some(false)
    }

    /// Parses a text.
    ///
    /// # Errors
    /// The defect of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if let Some(path) = config
            .constant_paths
            .iter()
            .find(|path| !path.is_absolute())
        {
            return Err(format!(
                "{} in constant_paths is not absolute",
                path.display()
            ));
        }
        if let Some(path) = config
            .constant_paths
            .iter()
            .find(|path| path.parent().is_none())
        {
            return Err(format!(
                "{} in constant_paths is everything",
                path.display()
            ));
        }
        config.limits()?;
        Ok(config)
    }

    /// Returns the limits of the store.
    ///
    /// # Errors
    /// Fails if the size is invalid.
    pub fn limits(&self) -> Result<Limits, String> {
        let mut limits = Limits::default();
        if let Some(size) = &self.max_size {
            limits.max_bytes = bytes(size)?;
        }
        if let Some(days) = self.max_age_days {
            limits.max_age = Some(Duration::from_secs(days.saturating_mul(24 * 60 * 60)));
        }
        Ok(limits)
    }

    /// Whether a variable does not count.
    pub fn ignores(&self, name: &[u8]) -> bool {
        self.ignore_variables
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start.as_bytes()),
                None => name == pattern.as_bytes(),
            })
    }

    /// Whether a program always runs.
    pub fn runs_always(&self, program: &Path) -> bool {
        self.uncacheable.iter().any(|listed| {
            let listed = Path::new(listed);
            listed == program || (listed.components().count() == 1 && program.ends_with(listed))
        })
    }

    /// Whether a query is about a path in a constant directory.
    pub fn is_constant(&self, query: &Query) -> bool {
        if self.constant_paths.is_empty() {
            return false;
        }
        let paths = query.paths();
        // `..` components could lead out.
        let is_inside = |path: &Path| {
            let climbs = path
                .components()
                .any(|part| part == std::path::Component::ParentDir);
            !climbs
                && self
                    .constant_paths
                    .iter()
                    .any(|place| path.starts_with(place))
        };
        !paths.is_empty() && paths.iter().all(|path| is_inside(path))
    }
}

/// Parses a number of bytes with a unit: `10G`.
///
/// # Errors
/// A description of the expected form.
pub fn bytes(text: &str) -> Result<u64, String> {
    let text = text
        .trim()
        .trim_end_matches(['B', 'b'])
        .trim_end_matches('i');
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("a size is a number with K, M, G or T, such as 10G".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "a size begins with a number, such as 10G".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_configuration_equals_the_defaults() {
        let example = Config::parse(EXAMPLE).unwrap();
        assert_eq!(example.limits(), Config::default().limits());
        assert_eq!(example.min_time_ms, Some(3));
        let failed = Ending::Exited(1);
        assert!(example.stores(failed) && Config::default().stores(failed));
        assert!(example.ignore_variables.is_empty() && example.constant_paths.is_empty());
    }

    #[test]
    fn sizes_have_units() {
        for (text, size) in [
            ("10", 10),
            ("4K", 4096),
            ("4 KiB", 4096),
            ("2mb", 2 << 20),
            ("10G", 10 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "G", "1X", "-1", "99999999999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_keys_and_invalid_values_are_refused() {
        for text in [
            "ignore_variable = []",
            "constant_paths = ['relative']",
            "constant_paths = ['/']",
            "max_size = 'much'",
            "min_time_ms = -1",
        ] {
            assert!(Config::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_programs_and_paths_are_matched() {
        let config = Config::parse(
            "ignore_variables = ['A', 'CI_*']\nuncacheable = ['git', '/opt/x']\n\
             constant_paths = ['/opt/tool']",
        )
        .unwrap();
        assert!(config.ignores(b"A") && config.ignores(b"CI_JOB"));
        assert!(!config.ignores(b"AB") && !config.ignores(b"CI"));
        assert!(config.runs_always(Path::new("/usr/bin/git")));
        assert!(config.runs_always(Path::new("/opt/x")));
        assert!(!config.runs_always(Path::new("/usr/bin/x")));
        let asked = |path: &str| config.is_constant(&Query::Content(path.into()));
        assert!(asked("/opt/tool/include/a.h"));
        assert!(!asked("/opt/tools/a.h") && !asked("/opt/tool/../b.h"));
        assert!(!config.is_constant(&Query::Order(vec!["/opt/tool/a".into(), "/b".into()])));
    }
}
