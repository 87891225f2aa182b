//! Ends this process as another one ended.

use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};

/// Ends this process by a signal that has ended another one, without a core, which is that
/// one's business.
///
/// Returns where the signal does not end this process: the exit status that shells have for
/// it.
pub fn end_by(signal: i32) -> u8 {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
