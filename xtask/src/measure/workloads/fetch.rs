//! Getting the sources, with the clients that people use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::catalog::{Source, Workload};

/// The directories that all workloads share.
#[derive(Debug)]
pub(super) struct Yard {
    /// Root of all.
    pub(super) work: PathBuf,
}

impl Yard {
    /// An environment that is installed rather than built: Python's.
    pub(super) fn tools(&self) -> PathBuf {
        self.work.join("tools")
    }

    /// Where what is not needed any more lies until all is measured.
    pub(super) fn aside(&self) -> PathBuf {
        self.work.join("aside")
    }

    /// The unpacked source of a workload, fetched when it is not there yet.
    ///
    /// # Errors
    ///
    /// When the source cannot be fetched or unpacked.
    pub(super) fn pristine(&self, workload: &Workload) -> anyhow::Result<PathBuf> {
        let tree = self.work.join("sources").join(workload.name);
        if tree.exists() {
            return Ok(tree);
        }
        let unfinished = self
            .work
            .join("sources")
            .join(format!("{}.new", workload.name));
        crate::support::tree::remove(&unfinished)?;
        fs::create_dir_all(self.work.join("sources"))?;
        fs::create_dir_all(self.tools())?;
        match workload.source {
            Source::Debian(package) => self.debian(package, &unfinished)?,
            Source::Script(script) => {
                fs::create_dir(&unfinished)?;
                let status = Command::new("sh")
                    .args(["-c", script])
                    .current_dir(&unfinished)
                    .env("TOOLS", self.tools())
                    .status()
                    .context("starting sh")?;
                ensure!(
                    status.success(),
                    "making the files of {} failed",
                    workload.name
                );
            }
        }
        // Empty at first; a scenario adds a header.
        fs::create_dir_all(unfinished.join("early"))?;
        fs::rename(&unfinished, &tree)?;
        Ok(tree)
    }

    fn debian(&self, package: &str, to: &Path) -> anyhow::Result<()> {
        let config = self.apt_config()?;
        let downloads = self.work.join("downloads").join(package);
        fs::create_dir_all(&downloads)?;
        run(Command::new("apt-get")
            .args(["source", "--download-only", "-qq", package])
            .current_dir(&downloads)
            .env("APT_CONFIG", &config))?;
        let description = fs::read_dir(&downloads)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "dsc"))
            .with_context(|| format!("`apt-get source {package}` brought no .dsc file"))?;
        run(Command::new("dpkg-source")
            .args(["--no-check", "--no-copy", "--skip-patches", "-x"])
            .arg(description)
            .arg(to))
    }

    /// A configuration of apt that has the system's archives, but their
    /// sources, and directories of our own; the system's stays untouched.
    fn apt_config(&self) -> anyhow::Result<PathBuf> {
        let apt = self.work.join("apt");
        let config = apt.join("apt.conf");
        if config.exists() {
            return Ok(config);
        }
        for dir in ["lists/partial", "cache/archives/partial", "sources.list.d"] {
            fs::create_dir_all(apt.join(dir))?;
        }
        let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
        if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
            files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
        for file in files {
            let (Ok(text), Some(name)) = (fs::read_to_string(&file), file.file_name()) else {
                continue;
            };
            if let Some(text) = with_sources(&name.to_string_lossy(), &text) {
                fs::write(apt.join("sources.list.d").join(name), text)?;
            }
        }
        let unfinished = apt.join("apt.conf.new");
        fs::write(
            &unfinished,
            format!(
                "Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{0}/sources.list.d\";\n\
                 Dir::State::lists \"{0}/lists\";\nDir::Cache \"{0}/cache\";\n",
                apt.display()
            ),
        )?;
        run(Command::new("apt-get")
            .args(["update", "-qq"])
            .env("APT_CONFIG", &unfinished))?;
        fs::rename(unfinished, &config)?;
        Ok(config)
    }
}

/// The content of a file of apt sources, asking for source packages instead;
/// `None` for a file that apt does not read.
fn with_sources(name: &str, text: &str) -> Option<String> {
    let lines = text.lines();
    let lines: Vec<String> = if name.ends_with(".sources") {
        lines
            .map(|line| {
                if line.starts_with("Types:") {
                    "Types: deb-src".to_owned()
                } else {
                    line.to_owned()
                }
            })
            .collect()
    } else if name.ends_with(".list") {
        lines
            .filter_map(|line| line.strip_prefix("deb "))
            .map(|rest| format!("deb-src {rest}"))
            .collect()
    } else {
        return None;
    };
    Some(lines.join("\n") + "\n")
}

/// Runs a command that must succeed.
pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("starting {program}"))?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_of_apt_sources_are_turned_to_sources() {
        assert_eq!(
            with_sources(
                "debian.sources",
                "Types: deb\nURIs: http://archive\nSuites: stable\n"
            )
            .unwrap(),
            "Types: deb-src\nURIs: http://archive\nSuites: stable\n"
        );
        assert_eq!(
            with_sources("extra.list", "# note\ndeb http://archive stable main\n").unwrap(),
            "deb-src http://archive stable main\n"
        );
        assert_eq!(
            with_sources("extra.list.disabled", "deb http://archive stable main\n"),
            None
        );
    }
}
