//! The next actions of the build tool of a tree.
//!
//! The times of the files themselves are allowed to differ between the sides;
//! the conclusions that make and ninja draw from them are not.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::check::search_path;
use super::execute::start;
use crate::support::tree::snapshot::{Aspect, excerpts};

/// The answer of each tool that was asked.
pub(crate) type Conclusions = Vec<(&'static str, Vec<u8>)>;

/// Asks the tool that builds projects of `kind` what is out of date.
///
/// # Errors
///
/// When the tool cannot be started.
pub(crate) fn conclude(tree: &Path, kind: &str, home: &Path) -> anyhow::Result<Conclusions> {
    let mut conclusions = Vec::new();
    let mut ask = |name: &'static str, argv: &[&str]| {
        let mut command = Command::new(argv[0]);
        command
            .args(&argv[1..])
            .current_dir(tree)
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", home)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = start(&mut command)
            .and_then(Child::wait_with_output)
            .with_context(|| format!("starting {}", argv[0]))?;
        let mut answer = output.stdout;
        answer.extend(output.stderr);
        conclusions.push((name, answer));
        anyhow::Ok(())
    };
    if kind == "make" && tree.join("Makefile").is_file() {
        ask("make -n", &["make", "-n"])?;
    }
    if kind == "ninja" && tree.join("build.ninja").is_file() {
        ask("ninja -n", &["ninja", "-n"])?;
        ask("ninja -t deps", &["ninja", "-t", "deps"])?;
        if let Some((_, answer)) = conclusions.last_mut() {
            *answer = without_numbers(answer);
        }
    }
    Ok(conclusions)
}

/// Lists the questions that were answered differently.
pub(crate) fn compare(ours: &Conclusions, theirs: &Conclusions, found: &mut Vec<(Aspect, String)>) {
    for ((question, ours), (_, theirs)) in ours.iter().zip(theirs) {
        if ours != theirs {
            let (ours, theirs) = excerpts(ours, theirs);
            found.push((
                Aspect::Conclusion,
                format!("`{question}` says {ours} plainly, {theirs} under pcache"),
            ));
        }
    }
}

/// `ninja -t deps` prints times; the rest of its answer stays.
fn without_numbers(answer: &[u8]) -> Vec<u8> {
    let mut entries: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(answer).lines() {
        match line.split_once("deps mtime ") {
            Some((before, after)) => {
                let claim = after.split_once(' ').map_or("", |(_, claim)| claim);
                entries.push(format!("{before}{claim}"));
            }
            // Dependencies belong to the entry above them.
            None => match entries.last_mut() {
                Some(entry) => *entry += line,
                None => entries.push(line.to_owned()),
            },
        }
    }
    entries.sort();
    entries.join("\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_ninja_deps_are_left_out() {
        let answer = b"out/b: #deps 1, deps mtime 17 (VALID)\n    inc/x.h\n\nout/a: #deps 1, deps mtime 18 (STALE)\n    inc/y.h\n";
        assert_eq!(
            String::from_utf8(without_numbers(answer)).unwrap(),
            "out/a: #deps 1, (STALE)    inc/y.h\nout/b: #deps 1, (VALID)    inc/x.h"
        );
    }
}
