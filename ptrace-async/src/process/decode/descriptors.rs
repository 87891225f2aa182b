//! Calls that make, copy and close descriptors.

use std::rc::Rc;

use super::context::EntryContext;
use super::step::{ExitStep, Report};
use crate::event::{FileKind, Identity, IoEvent, OpenFile};
use crate::process::commands::{F_GET_RW_HINT, F_SET_FILE_RW_HINT, HARMLESS_FCNTL};
use crate::process::model::NewDescription;
use crate::process::watch::reads_unseen;

const CLOSE_RANGE_UNSHARE: u32 = 2;
const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// Descriptors below this are assumed to be available under any limit.
const WITHIN_LIMITS: i32 = 16;

/// The event for a description that got a number whose reads are not watched.
pub(super) fn read_from_now_on(fd: i32, file: Rc<OpenFile>) -> Option<IoEvent> {
    (reads_unseen(fd) && file.readable).then_some(IoEvent::Read {
        fd,
        file,
        positioned: false,
    })
}

impl EntryContext<'_> {
    /// The descriptor is closed even if close(2) returns an error, and its number cannot be
    /// reused before that. Some file systems report there that written bytes were lost.
    pub(super) fn close(&mut self) -> Option<ExitStep> {
        let fd = self.int(0);
        let table = self.model.table_mut(self.tid)?;
        let was_written = table.get(fd).is_some_and(|slot| keeps_bytes(&slot.file));
        table.close(fd);
        was_written.then_some(ExitStep::Result)
    }

    pub(super) fn close_range(&mut self) -> Option<ExitStep> {
        let (first, last, flags) = (self.uint(0), self.uint(1), self.uint(2));
        if first > last || flags & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 {
            return None;
        }
        if flags & CLOSE_RANGE_UNSHARE != 0 {
            self.model.unshare_files(self.tid);
        }
        if let Some(table) = self.model.table_mut(self.tid) {
            table.close_range(first, last, flags & CLOSE_RANGE_CLOEXEC != 0);
        }
        None
    }

    /// The number of the copy is the result.
    pub(super) fn duplicate(&mut self, old: i32, cloexec: bool) -> Option<ExitStep> {
        self.file(old)?;
        Some(ExitStep::Duplicate { old, cloexec })
    }

    pub(super) fn duplicate_onto(&mut self, flags: i32) -> Option<ExitStep> {
        let (old, new) = (self.int(0), self.int(1));
        if old == new {
            // dup2 does nothing, dup3 fails.
            return None;
        }
        let cloexec = flags & libc::O_CLOEXEC != 0;
        if (0..WITHIN_LIMITS).contains(&new) && flags & !libc::O_CLOEXEC == 0 {
            // It succeeds, so there is nothing to wait for.
            let file = self.file(old)?;
            let table = self.model.table_mut(self.tid)?;
            table.set(new, Rc::clone(&file), cloexec);
            self.out.extend(read_from_now_on(new, file));
            return None;
        }
        self.duplicate(old, cloexec)
    }

    pub(super) fn fcntl(&mut self) -> Option<ExitStep> {
        let (fd, command, argument) = (self.int(0), self.int(1), self.int(2));
        match command {
            libc::F_DUPFD => self.duplicate(fd, false),
            libc::F_DUPFD_CLOEXEC => self.duplicate(fd, true),
            libc::F_SETFD => {
                self.file(fd)?;
                if let Some(table) = self.model.table_mut(self.tid) {
                    table.set_cloexec(fd, argument & libc::FD_CLOEXEC != 0);
                }
                None
            }
            libc::F_SETFL => self.status_flags(fd, argument),
            libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW => self.lock(),
            libc::F_SETPIPE_SZ => {
                let file = self.file(fd)?;
                file.creator.is_none().then_some(())?;
                Some(ExitStep::Report(IoEvent::StateChange {
                    what: "size of an inherited pipe",
                }))
            }
            libc::F_ADD_SEALS | F_GET_RW_HINT..=F_SET_FILE_RW_HINT => None,
            command if HARMLESS_FCNTL.contains(&command) => None,
            libc::F_SETLEASE | libc::F_CANCELLK => {
                self.unsupported("leases wait for other processes")
            }
            libc::F_NOTIFY => self.unsupported("directory notifications are not modelled"),
            libc::F_SETOWN | 10 | 15 => {
                self.unsupported("it asks for signals about input and output")
            }
            _ => self.unsupported("an fcntl command that is not modelled"),
        }
    }

    /// `F_SETFL`. What is not refused is done at once.
    fn status_flags(&mut self, fd: i32, flags: i32) -> Option<ExitStep> {
        // Not all files and file systems take these (fcntl(2)).
        const REFUSED: i32 = libc::O_DIRECT | libc::O_NOATIME | libc::O_ASYNC;
        let file = self.file(fd)?;
        let (append, nonblocking) = (flags & libc::O_APPEND != 0, flags & libc::O_NONBLOCK != 0);
        // A file that may only grow is open for writing with `O_APPEND` and keeps it.
        let certain = file.writable && flags & REFUSED == 0 && (append || !file.append.get());
        if certain {
            self.out
                .extend(set_status(&file, Some(append), Some(nonblocking)));
            return None;
        }
        Some(ExitStep::StatusFlags {
            file,
            append: Some(append),
            nonblocking: Some(nonblocking),
        })
    }

    /// `family` is given for socketpair, whose type argument carries the flags.
    pub(super) fn pair(
        &mut self,
        address: u64,
        flags: i32,
        family: Option<i32>,
    ) -> Option<ExitStep> {
        Some(ExitStep::Pair {
            address,
            flags,
            family,
        })
    }

    /// The flags of all these calls are `O_CLOEXEC` and `O_NONBLOCK` under
    /// other names.
    pub(super) fn anonymous(&mut self, name: &'static str, flags: i32) -> Option<ExitStep> {
        let new = NewDescription::anonymous(FileKind::Anon(name), flags & libc::O_NONBLOCK != 0);
        self.create(new, flags & libc::O_CLOEXEC != 0, Report::Nothing)
    }

    pub(super) fn inotify(&mut self, flags: i32) -> Option<ExitStep> {
        let mut new =
            NewDescription::anonymous(FileKind::Anon("inotify"), flags & libc::O_NONBLOCK != 0);
        new.writable = false;
        let reason = "file notifications depend on what others do";
        let cloexec = flags & libc::O_CLOEXEC != 0;
        self.create(new, cloexec, Report::Unsupported(reason))
    }

    pub(super) fn memfd(&mut self, cloexec: bool) -> Option<ExitStep> {
        let new = NewDescription::anonymous(FileKind::MemFd, false);
        self.create(new, cloexec, Report::Nothing)
    }

    /// A pidfd is always close-on-exec. One of a process outside the model looks
    /// at it (whether it exists, and later when it ends).
    pub(super) fn pidfd_open(&mut self) -> Option<ExitStep> {
        if self.model.task(self.int(0)).is_none() {
            self.push(IoEvent::Identity {
                what: Identity::OtherProcess,
            });
        }
        let nonblocking = self.int(1) & libc::O_NONBLOCK != 0;
        let new = NewDescription::anonymous(FileKind::Anon("pidfd"), nonblocking);
        self.create(new, true, Report::Nothing)
    }
}

/// Whether a description may hold bytes for a disk.
fn keeps_bytes(file: &OpenFile) -> bool {
    let regular = matches!(file.kind, FileKind::Opened | FileKind::Regular);
    let path = file.path.as_deref();
    file.writable && regular && path.is_none_or(|path| !path.starts_with("/dev"))
}

/// Sets the given status flags. Changed flags of an inherited description outlive the
/// process, so they are reported.
pub(super) fn set_status(
    file: &OpenFile,
    append: Option<bool>,
    nonblocking: Option<bool>,
) -> Option<IoEvent> {
    let before = (file.append.get(), file.nonblocking.get());
    let after = (append.unwrap_or(before.0), nonblocking.unwrap_or(before.1));
    file.append.set(after.0);
    file.nonblocking.set(after.1);
    (before != after && file.creator.is_none()).then_some(IoEvent::StateChange {
        what: "status flags of an inherited description",
    })
}

#[cfg(test)]
mod tests {
    use crate::event::FileKind;
    use crate::process::nr;
    use crate::process::testing::{Case, TID};

    #[test]
    fn duplicates_share_the_description() {
        let mut case = Case::new();
        case.call(nr::dup, &[1], 3);
        case.call(nr::dup2, &[1, 10], 10);
        case.call(nr::dup3, &[1, 11, libc::O_CLOEXEC as u64], 11);
        case.call(nr::fcntl, &[1, libc::F_DUPFD as u64, 20], 20);
        case.call(nr::fcntl, &[1, libc::F_DUPFD_CLOEXEC as u64, 20], 21);
        assert_eq!(case.descriptors(TID), "0 1 2 3 10 11* 20 21*");
        let id = case.model.file(TID, 1).unwrap().id;
        for fd in [3, 10, 11, 20, 21] {
            assert_eq!(case.model.file(TID, fd).unwrap().id, id);
        }
    }

    #[test]
    fn duplicating_to_an_unwatched_number_counts_as_reading() {
        let mut case = Case::new();
        let read = |fd: u64| format!("read {fd} </dev/pts/9>");
        for fd in [3, 5, 255] {
            case.check(nr::dup2, &[0, fd], fd as i64, &[read(fd).as_str()]);
        }
        case.check(nr::dup2, &[0, 6], 6, &[]);
        case.check(nr::dup, &[0], 4, &[read(4).as_str()]);
        case.check(nr::dup3, &[1, 3, 0], -9, &[]);
    }

    #[test]
    fn dup2_onto_itself_changes_nothing() {
        let mut case = Case::new();
        case.call(nr::fcntl, &[1, libc::F_SETFD as u64, 1], 0);
        case.call(nr::dup2, &[1, 1], 1);
        assert!(!case.exited);
        assert_eq!(case.descriptors(TID), "0 1* 2");
        case.call(nr::dup2, &[5, 6], -9);
        case.call(nr::dup3, &[1, 6, 1], -22);
        assert_eq!(case.descriptors(TID), "0 1* 2");
    }

    #[test]
    fn low_numbers_are_given_without_waiting() {
        let mut case = Case::new();
        case.call(nr::dup2, &[2, 1], 1);
        assert!(!case.exited);
        case.call(nr::dup3, &[0, 4, libc::O_CLOEXEC as u64], 4);
        assert!(!case.exited);
        assert_eq!(case.descriptors(TID), "0 1 2 4*");
        let id = |fd| case.model.file(TID, fd).unwrap().id;
        assert_eq!((id(1), id(4)), (id(2), id(0)));
        // There may be a limit.
        case.call(nr::dup2, &[2, 1000], -9);
        assert!(case.exited);
        assert_eq!(case.descriptors(TID), "0 1 2 4*");
    }

    #[test]
    fn closing_needs_no_exit() {
        let mut case = Case::new();
        case.call(nr::dup2, &[1, 7], 7);
        case.call(nr::dup2, &[1, 9], 9);
        case.call(nr::close, &[0], 0);
        assert!(!case.exited);
        assert_eq!(case.descriptors(TID), "1 2 7 9");
        case.call(nr::close_range, &[2, 7, 0], 0);
        assert_eq!(case.descriptors(TID), "1 9");
        case.call(nr::close_range, &[2, u64::from(u32::MAX), 4], 0);
        assert_eq!(case.descriptors(TID), "1 9*");
        case.call(nr::close_range, &[9, 2, 0], -22);
        case.call(nr::close_range, &[0, 100, 64], -22);
        case.call(nr::close, &[u64::MAX], -9);
        assert_eq!(case.descriptors(TID), "1 9*");
    }

    #[test]
    fn close_range_can_unshare_the_table_first() {
        let mut case = Case::new();
        let thread = TID + 1;
        case.model
            .spawned(TID, thread, (libc::CLONE_FILES | libc::CLONE_THREAD) as u64);
        case.call_by(thread, nr::close_range, &[1, 1, 2], 0);
        assert_eq!(case.descriptors(thread), "0 2");
        assert_eq!(case.descriptors(TID), "0 1 2");
    }

    #[test]
    fn pipes_and_socket_pairs_are_channels() {
        let mut case = Case::new();
        let pair = case.ints(&[3, 4]);
        case.check(
            nr::pipe2,
            &[pair, libc::O_CLOEXEC as u64],
            0,
            &["channel pipe pipe"],
        );
        assert_eq!(case.descriptors(TID), "0 1 2 3* 4*");
        let (read, write) = (
            case.model.file(TID, 3).unwrap(),
            case.model.file(TID, 4).unwrap(),
        );
        assert_eq!(read.kind, write.kind);
        assert!(read.readable && !read.writable && write.writable && !write.readable);
        assert_ne!(read.id, write.id);
        let pair = case.ints(&[5, 6]);
        let kind = (libc::SOCK_STREAM | libc::SOCK_NONBLOCK) as u64;
        case.check(
            nr::socketpair,
            &[1, kind, 0, pair],
            0,
            &["channel socket socket"],
        );
        let socket = case.model.file(TID, 6).unwrap();
        assert_eq!(socket.kind, FileKind::Socket(1));
        assert!(socket.nonblocking.get());
        case.check(nr::pipe, &[pair], -24, &[]);
    }

    #[test]
    fn anonymous_descriptors_have_their_flags() {
        let mut case = Case::new();
        let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
        for (fd, nr, args) in [
            (3, nr::eventfd2, [0, flags, 0, 0]),
            (4, nr::timerfd_create, [0, flags, 0, 0]),
            (5, nr::epoll_create1, [flags, 0, 0, 0]),
            (6, nr::signalfd4, [u64::MAX, 0, 8, flags]),
            (7, nr::memfd_create, [0, 1, 0, 0]),
            (8, nr::eventfd, [0; 4]),
        ] {
            assert!(case.call(nr, &args, fd).is_empty());
        }
        assert_eq!(case.descriptors(TID), "0 1 2 3* 4* 5* 6* 7* 8");
        assert_eq!(case.model.file(TID, 7).unwrap().kind, FileKind::MemFd);
        assert!(case.model.file(TID, 3).unwrap().nonblocking.get());
        assert!(!case.model.file(TID, 8).unwrap().nonblocking.get());
        // Changing the mask of an existing signalfd makes none.
        case.call(nr::signalfd4, &[6, 0, 8, 0], 6);
        assert!(!case.exited);
    }

    #[test]
    fn descriptors_that_cannot_be_followed_have_a_reason() {
        let mut case = Case::new();
        for (fd, nr, prefix) in [
            (3, nr::inotify_init1, "unsupported inotify_init1"),
            (4, nr::io_uring_setup, "unsupported io_uring_setup"),
            (5, nr::perf_event_open, "unsupported perf_event_open"),
            (6, nr::bpf, "unsupported bpf"),
            (7, nr::fsopen, "unsupported fsopen"),
            (8, nr::mq_open, "shared POSIX message queue"),
            (9, nr::pidfd_getfd, "received 9"),
        ] {
            let events = case.call(nr, &[0, 0], fd);
            let shown: Vec<String> = events.iter().map(crate::process::testing::show).collect();
            assert!(
                shown.len() == 1 && shown[0].starts_with(prefix),
                "{shown:?}"
            );
            assert!(case.model.file(TID, fd as i32).is_some());
        }
    }

    #[test]
    fn a_pidfd_of_an_outsider_looks_at_another_process() {
        let mut case = Case::new();
        case.check(nr::pidfd_open, &[TID as u64, 0], 3, &[]);
        case.check(nr::pidfd_open, &[1, 0], 4, &["identity OtherProcess"]);
        assert_eq!(case.descriptors(TID), "0 1 2 3* 4*");
    }

    #[test]
    fn status_flags_are_kept_and_inherited_ones_reported() {
        let mut case = Case::new();
        case.open("f", libc::O_RDWR, 3);
        let flags = (libc::O_APPEND | libc::O_NONBLOCK) as u64;
        let set = libc::F_SETFL as u64;
        case.check(nr::fcntl, &[3, set, flags], 0, &[]);
        let file = case.model.file(TID, 3).unwrap();
        assert!(file.append.get() && file.nonblocking.get());
        let direct = flags | libc::O_DIRECT as u64;
        case.check(nr::fcntl, &[2, set, direct], -1, &[]);
        assert!(!case.model.file(TID, 2).unwrap().append.get());
        let expected = "state status flags of an inherited description";
        case.check(nr::fcntl, &[2, set, flags], 0, &[expected]);
        // The kernel may refuse to take it away again.
        case.check(nr::fcntl, &[2, set, 0], -1, &[]);
        assert!(case.model.file(TID, 2).unwrap().append.get());
        case.check(nr::fcntl, &[2, set, 0], 0, &[expected]);
        assert!(!case.model.file(TID, 2).unwrap().append.get());
        case.check(nr::fcntl, &[2, libc::F_GETFL as u64], 0, &[]);
        let expected = "unsupported fcntl: an fcntl command that is not modelled";
        case.check(nr::fcntl, &[2, 4711], 0, &[expected]);
    }
}
