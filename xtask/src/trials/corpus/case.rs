//! The cases: one source file each, which says at its top what is to be known of it.
//!
//! The first line of a source is a comment with what it shows. The lines right below it
//! may give, in the same kind of comment:
//!
//! | line | means |
//! |---|---|
//! | `flags: -pthread` | flags of the compiler |
//! | `status: 3`, `status: signal 11` | how it ends; by default with status 0 |
//! | `refused: io_uring_setup` | the recorder refuses this call, and says so |
//! | `refused to users: execve` | it does where it has no rights beyond those of a user |
//! | `needs: avx` | it is left out where the processor lacks this |

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Status(i32),
    Signal(i32),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// The language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    Assembly,
    C,
    Go,
    Rust,
}

/// A program of the corpus.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// Its family and its own name.
    pub(super) name: String,
    pub(super) source: PathBuf,
    pub(super) language: Language,
    pub(super) flags: Vec<String>,
    pub(super) ending: Ending,
    /// Calls that the recorder refuses.
    pub(super) refused: Vec<String>,
    pub(super) refused_to_users: Vec<String>,
    /// Features that the processor must have.
    pub(super) needs: Vec<String>,
}

/// All cases, in order.
///
/// # Errors
/// When a source cannot be read, or says something of itself that is not known.
pub(super) fn all(root: &Path) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for family in entries(root)? {
        if !family.is_dir() {
            continue;
        }
        for source in entries(&family)? {
            cases.push(read(root, source)?);
        }
    }
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(cases)
}

fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn read(root: &Path, source: PathBuf) -> anyhow::Result<Case> {
    let language = match source.extension().and_then(|extension| extension.to_str()) {
        Some("c") => Language::C,
        Some("rs") => Language::Rust,
        Some("go") => Language::Go,
        Some("S") => Language::Assembly,
        _ => bail!("{} is no program of a known kind", source.display()),
    };
    let text = std::fs::read_to_string(&source)
        .with_context(|| format!("reading {}", source.display()))?;
    let name = source.with_extension("");
    let name = name.strip_prefix(root).unwrap_or(&name);
    let mut case = Case {
        name: name.to_string_lossy().into_owned(),
        source: source.clone(),
        language,
        flags: Vec::new(),
        ending: Ending::Status(0),
        refused: Vec::new(),
        refused_to_users: Vec::new(),
        needs: Vec::new(),
    };
    head(&text, &mut case).with_context(|| format!("the head of {}", source.display()))?;
    Ok(case)
}

/// Reads the comment at the top.
fn head(text: &str, case: &mut Case) -> anyhow::Result<()> {
    let mut lines = text.lines().map_while(|line| line.strip_prefix("//"));
    lines.next().context("it does not say what it shows")?;
    for line in lines {
        let Some((key, value)) = line.trim().split_once(": ") else {
            // The comment goes on.
            continue;
        };
        let words = || value.split_whitespace().map(str::to_owned);
        match key {
            "flags" => case.flags.extend(words()),
            "refused" => case.refused.extend(words()),
            "refused to users" => case.refused_to_users.extend(words()),
            "needs" => case.needs.extend(words()),
            "status" => case.ending = ending(value)?,
            other => bail!("`{other}` is no known key"),
        }
    }
    Ok(())
}

fn ending(text: &str) -> anyhow::Result<Ending> {
    Ok(match text.strip_prefix("signal ") {
        Some(signal) => Ending::Signal(signal.parse()?),
        None => Ending::Status(text.parse()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> anyhow::Result<Case> {
        let mut case = Case {
            name: String::new(),
            source: PathBuf::new(),
            language: Language::C,
            flags: Vec::new(),
            ending: Ending::Status(0),
            refused: Vec::new(),
            refused_to_users: Vec::new(),
            needs: Vec::new(),
        };
        head(text, &mut case).map(|()| case)
    }

    #[test]
    fn a_head_says_what_is_to_be_known() {
        let case = check(
            "// A fault ends it.\n// flags: -pthread -O1\n// status: signal 11\n// refused: bpf\n\n// status: 7\n",
        )
        .unwrap();
        assert_eq!(case.flags, ["-pthread", "-O1"]);
        assert_eq!(case.ending, Ending::Signal(11));
        assert_eq!(case.refused, ["bpf"]);
    }

    #[test]
    fn a_misspelt_key_is_an_error() {
        assert!(check("// It ends.\n// statsu: 1\n").is_err());
        assert!(check("int main;").is_err());
    }
}
