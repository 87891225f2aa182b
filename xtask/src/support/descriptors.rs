//! The program that makes calls on descriptors. Copies of it have the names of programs about
//! which pcache assumes different things.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, ensure};

/// The program, once it is compiled.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Compiles the program into a directory that lasts as long as it is used.
///
/// # Errors
///
/// When there is no C compiler, or the program does not compile.
pub(crate) fn compile(directory: &Path) -> anyhow::Result<()> {
    let [source, program] = ["descriptors.c", "descriptors"].map(|name| directory.join(name));
    std::fs::write(&source, include_str!("descriptors.c"))?;
    let output = Command::new("cc")
        .args(["-O1", "-Wall", "-o"])
        .arg(&program)
        .arg(&source)
        .output()
        .context("starting cc")?;
    ensure!(
        output.status.success(),
        "the program of calls does not compile: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    PROGRAM.get_or_init(|| program);
    Ok(())
}

/// Returns the program, if it was compiled.
pub(crate) fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}
