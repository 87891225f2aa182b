//! A recording as a whole: a directory with a `session` file and the logs of its threads.

mod edit;
mod open;

pub use edit::{EditedThread, write_processes, write_recording};
pub use open::{
    OLDEST_VERSION as OLDEST_RECORDING_VERSION, RecordedThread, Recording, RecordingError,
    SESSION_FILE, StartedProcess, Step, VERSION as RECORDING_VERSION, clocks_name, dir_name,
    file_name, places_name, process_line, session_header,
};
