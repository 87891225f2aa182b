//! `cargo xtask`: see the crate documentation of the library half.

use std::process::ExitCode;

fn main() -> ExitCode {
    match xtask::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
