//! `pcache`: run a command, skipping every process whose inputs are unchanged.

use std::process::ExitCode;

fn main() -> ExitCode {
    process_cache::cli::main()
}
