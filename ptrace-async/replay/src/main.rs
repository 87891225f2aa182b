//! `reprise`: record a program, replay it exactly.

use std::process::ExitCode;

fn main() -> ExitCode {
    reprise::cli::main()
}
