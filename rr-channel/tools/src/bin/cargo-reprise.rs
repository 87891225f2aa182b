//! `cargo reprise`: see [`rr_channel_tools::reprise`].

use std::process::ExitCode;

fn main() -> ExitCode {
    rr_channel_tools::reprise::main()
}
