//! Why a session cannot start.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rr_channel_log::RecordingError;

/// Why a session cannot start.
#[derive(Debug)]
pub enum StartError {
    Mode(String),
    Seed(String),
    Occupied(PathBuf),
    Create {
        dir: PathBuf,
        source: io::Error,
    },
    Recording(RecordingError),
    Program {
        dir: PathBuf,
        recorded: String,
        running: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Mode(mode) => write!(
                f,
                "unknown mode RR_CHANNEL={mode}: use record, replay or off"
            ),
            StartError::Seed(seed) => {
                write!(
                    f,
                    "RR_CHANNEL_CHAOS={seed} is not a seed: use a whole number, or two as SEED:LENGTH"
                )
            }
            StartError::Occupied(dir) => write!(
                f,
                "{} already holds a recording: remove it, or name another directory",
                dir.display()
            ),
            StartError::Create { dir, source } => {
                write!(f, "cannot record to {}: {source}", dir.display())
            }
            StartError::Recording(error) => write!(f, "cannot replay {error}"),
            StartError::Program {
                dir,
                recorded,
                running,
            } => write!(
                f,
                "cannot replay {}: it is a recording of `{recorded}`, and this is `{running}`",
                dir.display()
            ),
        }?;
        f.write_str("; running as if off")
    }
}

impl From<RecordingError> for StartError {
    fn from(error: RecordingError) -> Self {
        StartError::Recording(error)
    }
}
