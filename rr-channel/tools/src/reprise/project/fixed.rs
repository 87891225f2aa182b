//! Links executables to fixed addresses.
//!
//! An unoptimized program has a pointer for nearly each function that it calls. Each pointer is
//! relocated at every start if the program may be loaded anywhere. In a small test that takes
//! more time than its replay adds. So executables that are built here are loaded at the address
//! of the linker; only attackers gain from that.
//!
//! Cargo has flags for all crates or for none, and procedural macros cannot be linked this way.
//! A script that cargo calls in place of rustc tells them apart: tests and programs of the
//! project get the flag. Nothing changes where the project has such a wrapper itself, or
//! chooses how it is linked.

use std::path::{Path, PathBuf};

use crate::reprise::patch::copy;

/// The key of cargo's configuration that names what is called in place of rustc for the packages
/// of the project.
pub(crate) const KEY: &str = "build.rustc-workspace-wrapper";
/// The environment's variable that counts before it.
pub(crate) const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

const SCRIPT: &str = include_str!("fixed.sh");

/// The script, made below `dir`.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn script(dir: &Path) -> anyhow::Result<PathBuf> {
    // Cargo builds anew what was built by a script of another name, not of other content.
    let hash = blake3::hash(SCRIPT.as_bytes()).to_hex();
    let path = dir.join(format!("rustc-fixed-{}", &hash[..8]));
    copy::write_script(&path, SCRIPT)?;
    Ok(path)
}

/// Whether this is a host whose executables are linked so.
pub(crate) fn is_for(host: &str) -> bool {
    host == "x86_64-unknown-linux-gnu"
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Calls the script as the kernel would. It was written in this process: a child that
    /// another test starts meanwhile would have it open for writing for a moment, and it could
    /// not be executed (`ETXTBSY`).
    fn by_its_interpreter(script: &Path) -> Command {
        let (first, _) = SCRIPT.split_once('\n').unwrap();
        let mut command = Command::new(first.strip_prefix("#!").unwrap());
        command.arg(script);
        command
    }

    /// The call that the script makes of a call of rustc.
    fn called(args: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let output = by_its_interpreter(&script(dir.path()).unwrap())
            .arg("echo")
            .args(args.split(' '))
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    const FIXED: &str = " -C relocation-model=static";

    #[test]
    fn tests_and_programs_are_linked_to_fixed_addresses() {
        for args in [
            "--crate-name a a.rs --emit=dep-info,link --test -C debuginfo=2",
            "--crate-name a a.rs --emit=dep-info,link --cfg test",
            "--crate-name bin --crate-type bin --emit=link a.rs",
            "--crate-name a --crate-type bin --emit=link --target x86_64-unknown-linux-gnu",
        ] {
            assert_eq!(called(args), format!("{args}{FIXED}"));
        }
    }

    #[test]
    fn all_else_is_as_cargo_asks_for_it() {
        for args in [
            "-vV",
            "--crate-name a --crate-type lib --emit=dep-info,metadata,link a.rs",
            "--crate-name a --emit=link --crate-type cdylib a.rs",
            "--crate-name a --emit=dep-info,metadata --test a.rs",
            "--crate-name ___ --print=file-names --crate-type bin --crate-type rlib",
            "--crate-name a --emit=link --extern proc_macro --test a.rs",
            "--crate-name a --emit=link --test --target x86_64-unknown-linux-musl a.rs",
            "--crate-name build_script_build --emit=link --crate-type bin build.rs",
            "--crate-name a --emit=link --test a.rs -C relocation-model=pic",
            "--crate-name a --emit=link --test a.rs -C link-arg=-static-pie",
            "--crate-name a --emit=link --test a.rs -Zsanitizer=thread",
        ] {
            assert_eq!(called(args), args);
        }
    }

    #[test]
    fn arguments_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = script(dir.path()).unwrap();
        let output = by_its_interpreter(&path)
            .args(["printf", "%s|", "a b", "", "*"])
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"a b||*|");
    }
}
