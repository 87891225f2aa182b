//! Compiling the cases.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::case::{Case, Language};

/// The programs of this machine that compile and run cases.
#[derive(Debug)]
pub(super) struct Tools {
    cc: bool,
    go: bool,
    rustc: PathBuf,
    static_libc: bool,
    /// The flags of the first processor.
    processor: Vec<String>,
}

impl Tools {
    /// Looks.
    pub(super) fn find() -> Self {
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = processor
            .lines()
            .find_map(|line| line.strip_prefix("flags"))
            .map(|flags| flags.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        Self {
            cc: works("cc", &["--version"]),
            go: works("go", &["version"]),
            rustc: std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from),
            static_libc: has_static_libc(),
            processor,
        }
    }

    /// Why a case cannot be tried here.
    pub(super) fn missing(&self, case: &Case) -> Option<String> {
        match case.language {
            Language::C | Language::Assembly if !self.cc => {
                return Some("there is no C compiler here".to_owned());
            }
            Language::Go if !self.go => return Some("there is no Go compiler here".to_owned()),
            _ => {}
        }
        if case.flags.iter().any(|flag| flag.starts_with("-static")) && !self.static_libc {
            return Some("there is no static C library here".to_owned());
        }
        let lacking = case
            .needs
            .iter()
            .find(|need| !self.processor.contains(need));
        lacking.map(|need| format!("the processor has no {need}"))
    }

    /// Compiles a case to the program `to`.
    ///
    /// # Errors
    /// When it does not compile.
    pub(super) fn compile(&self, case: &Case, root: &Path, to: &Path) -> anyhow::Result<()> {
        let mut command = match case.language {
            Language::C => {
                let mut command = Command::new("cc");
                command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wno-unused-result"]);
                // The loader binds no function when it is called first: it would save vector
                // registers then, and which of them the processor takes for unused varies.
                // Where that lies on a stack of the program's own, it counts as memory.
                command.arg("-Wl,-z,now");
                command.arg("-I").arg(root);
                command
            }
            Language::Assembly => {
                let mut command = Command::new("cc");
                command.args(["-nostdlib", "-static", "-no-pie", "-Wl,-z,noexecstack"]);
                command
            }
            Language::Go => {
                let mut command = Command::new("go");
                command.env("GO111MODULE", "off").arg("build");
                command
            }
            Language::Rust => {
                let mut command = Command::new(&self.rustc);
                command.args(["--edition", "2024", "-O", "--crate-name", "case"]);
                command
            }
        };
        command.arg("-o").arg(to);
        if case.language == Language::C {
            // Libraries come last.
            command.arg(&case.source).args(&case.flags);
        } else {
            command.args(&case.flags).arg(&case.source);
        }
        let output = command
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("starting the compiler of {}", case.name))?;
        if !output.status.success() {
            bail!(
                "{} does not compile:\n{}",
                case.name,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }
}

fn works(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The C compiler says the bare name if it finds none.
fn has_static_libc() -> bool {
    Command::new("cc")
        .arg("-print-file-name=libc.a")
        .output()
        .is_ok_and(|output| output.stdout.contains(&b'/'))
}
