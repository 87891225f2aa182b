//! `rr-channel`: see [`rr_channel_tools::log_tool`].

use std::process::ExitCode;

fn main() -> ExitCode {
    rr_channel_tools::log_tool::main()
}
