//! `reprise doctor`.

use std::io::Write as _;
use std::process::ExitCode;

use crate::doctor::{self, Status};

/// Options of `reprise doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Something that is needed is missing.
const UNABLE: u8 = 1;

pub(super) fn doctor(args: &Args) -> anyhow::Result<ExitCode> {
    let findings = doctor::examine();
    let is_able = doctor::is_able(&findings);
    let mut out = std::io::stdout().lock();
    if args.json {
        let report = serde_json::json!({ "able": is_able, "findings": findings });
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        for finding in &findings {
            let mark = match finding.state {
                Status::Fine => "fine",
                Status::Note => "note",
                Status::Missing => "MISSING",
            };
            writeln!(out, "{mark:<8}{}: {}", finding.name, finding.found)?;
            writeln!(out, "        {}", finding.meaning)?;
        }
        let verdict = if is_able { "can" } else { "cannot" };
        writeln!(out, "programs {verdict} be recorded and replayed here")?;
    }
    Ok(if is_able {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(UNABLE)
    })
}
