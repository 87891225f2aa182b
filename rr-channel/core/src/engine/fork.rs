//! A child made by fork(2), before it has a session of its own: the session that it sees, and
//! the log mappings, are its parent's, and must be left alone.

use super::{context, replay, session};
use crate::platform::sys;

/// Whether this process is a fork of the one that began the session, and has no session of its
/// own.
pub fn is_fork() -> bool {
    sys::is_forked() && {
        // It may begin one.
        session::session();
        sys::is_forked()
    }
}

/// From here on, children made by fork(2) know that they are.
pub(super) fn watch() {
    extern "C" fn in_child() {
        session::leave_to_parent();
        context::forget_log();
        replay::forget_log();
    }
    sys::watch_forks(in_child);
}
