//! The meaning of errors: which of them a later call with the same arguments meets again.
//!
//! An error is a *fact* if it follows from state that the arguments name: a file that is
//! absent, a directory with entries, a missing right. Other errors come from outside of that
//! state: another process holds a lock, a disk is full. A tool that reuses the result of a
//! program must not reuse one that met such an error.
//!
//! Most errors mean the same for all calls. [`Spec::means`] of a row names those that do not.

use libc::*;

use super::errno::error_of;
use super::model::Spec;
use crate::invocation::Invocation;

/// The meaning of a failed call for a later run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// It follows from the arguments and from observable state.
    Fact,
    /// The program repeats the call until it succeeds, as with a pipe that is empty.
    Retried,
    /// Another process was in the way: it held a lock, or did not listen.
    Moment,
    /// The machine had too little of something: space, memory, processes, descriptors.
    Resource,
}

impl Failure {
    /// Whether a later run may succeed although all observed state is the same.
    #[must_use]
    pub fn passes(self) -> bool {
        matches!(self, Self::Moment | Self::Resource)
    }

    /// The meaning of an error for most calls. An unknown error passes.
    const fn usual(error: i32, blocks: bool) -> Self {
        match error {
            EPERM | ENOENT | ESRCH | ENXIO | E2BIG | ENOEXEC | EBADF | ECHILD | EACCES | EFAULT
            | ENOTBLK | EEXIST | EXDEV | ENODEV | ENOTDIR | EISDIR | EINVAL | ENOTTY | EFBIG
            | ESPIPE | EROFS | EMLINK | EPIPE | EDOM | ERANGE | ENAMETOOLONG | ENOSYS
            | ENOTEMPTY | ELOOP | ENOMSG | ENODATA | EPROTO | EOVERFLOW | ELIBACC | ELIBBAD
            | ELIBEXEC | EILSEQ | ENOTSOCK | EDESTADDRREQ | EMSGSIZE | EPROTOTYPE | ENOPROTOOPT
            | EPROTONOSUPPORT | ESOCKTNOSUPPORT | EOPNOTSUPP | EPFNOSUPPORT | EAFNOSUPPORT
            | EISCONN | ENOTCONN | ENOKEY | EKEYEXPIRED | EKEYREVOKED | EKEYREJECTED
            | ENOMEDIUM | EMEDIUMTYPE => Self::Fact,
            EIO | ENOMEM | ENFILE | EMFILE | ENOSPC | ENOLCK | EDQUOT | ENOBUFS | ENOSR
            | EUSERS | EUCLEAN | EBADMSG | EREMOTEIO | EHWPOISON => Self::Resource,
            EINTR if blocks => Self::Retried,
            // ERESTARTSYS and the like: the call comes again.
            512..=516 => Self::Retried,
            _ => Self::Moment,
        }
    }
}

impl Spec {
    /// The meaning of an error of this call, listed in [`Spec::errors`] or not.
    #[must_use]
    pub fn failure(&self, error: i32) -> Failure {
        let unusual = self.unusual_errors.iter();
        match unusual.copied().find(|(number, _)| *number == error) {
            Some((_, failure)) => failure,
            None => Failure::usual(error, self.blocks),
        }
    }

    /// The errors of [`Spec::errors`] with their meanings.
    #[must_use]
    pub fn failures(&self) -> Vec<(i32, Failure)> {
        let errors = self.errors().into_iter();
        errors.map(|error| (error, self.failure(error))).collect()
    }
}

impl Invocation {
    /// The error with which this call returned, and its meaning; `None` for a call that
    /// succeeded.
    #[must_use]
    pub fn failure(&self, result: i64) -> Option<(i32, Failure)> {
        let error = error_of(result)?;
        let failure = match self.syscall().spec() {
            Some(_) if error == ENXIO && self.opens_to_write_only() => Failure::Moment,
            Some(spec) => spec.failure(error),
            None => Failure::usual(error, false),
        };
        Some((error, failure))
    }

    /// Whether the call opens a file to write only. For a named pipe, `ENXIO` then means that no
    /// process reads from it now (open(2), "ERRORS"). For a device it means that there is none.
    fn opens_to_write_only(&self) -> bool {
        let flags = match self.nr.cast_signed() {
            libc::SYS_open => self.args[1],
            libc::SYS_openat => self.args[2],
            // The flags are in memory.
            libc::SYS_openat2 => return true,
            _ => return false,
        };
        flags as i32 & O_ACCMODE == O_WRONLY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscall::table;

    #[track_caller]
    fn check(call: &str, error: i32, expected: Failure) {
        let spec = table::by_name(call).expect(call);
        assert_eq!(spec.failure(error), expected, "{call} {error}");
        assert!(
            spec.errors().contains(&error),
            "{call} does not list {error}"
        );
    }

    #[test]
    fn errors_mean_what_their_call_makes_of_them() {
        check("openat", ENOENT, Failure::Fact);
        check("openat", EMFILE, Failure::Resource);
        check("openat", ETXTBSY, Failure::Moment);
        check("openat", ENXIO, Failure::Fact);
        check("mkdir", EEXIST, Failure::Fact);
        check("rename", EXDEV, Failure::Fact);
        check("rename", EBUSY, Failure::Moment);
        check("write", ENOSPC, Failure::Resource);
        check("write", EAGAIN, Failure::Retried);
        check("read", EINTR, Failure::Retried);
        check("flock", EAGAIN, Failure::Moment);
        check("fcntl", EACCES, Failure::Moment);
        check("fcntl", EINTR, Failure::Moment);
        check("clone", EAGAIN, Failure::Resource);
        check("execve", ETXTBSY, Failure::Moment);
        check("connect", ECONNREFUSED, Failure::Moment);
        check("msync", ENOMEM, Failure::Fact);
    }

    #[test]
    fn no_row_names_an_error_twice_or_says_what_is_usual() {
        for spec in table::all() {
            let mut errors = spec.world_errors.to_vec();
            errors.sort_unstable();
            let count = errors.len();
            errors.dedup();
            assert_eq!(errors.len(), count, "{}", spec.name);
            for &(error, failure) in spec.unusual_errors {
                assert_ne!(Failure::usual(error, spec.blocks), failure, "{}", spec.name);
                assert!(spec.errors().contains(&error), "{} {error}", spec.name);
            }
        }
    }

    #[test]
    fn restarted_and_unknown_calls_have_a_meaning() {
        let call = |nr| Invocation { nr, args: [0; 6] };
        assert_eq!(call(0).failure(4), None);
        assert_eq!(call(0).failure(-512), Some((512, Failure::Retried)));
        assert_eq!(call(9999).failure(-2), Some((ENOENT, Failure::Fact)));
        let open = |flags: i32| Invocation {
            nr: SYS_open as u64,
            args: [0, flags as u64, 0, 0, 0, 0],
        };
        // A terminal that is not there, and a named pipe without a reader.
        let terminal = open(O_RDWR | O_NONBLOCK).failure(-6);
        assert_eq!(terminal, Some((ENXIO, Failure::Fact)));
        let pipe = open(O_WRONLY | O_NONBLOCK).failure(-6);
        assert_eq!(pipe, Some((ENXIO, Failure::Moment)));
        assert_eq!(call(9999).failure(-131), Some((131, Failure::Moment)));
    }
}
