//! Calls that make, copy and close descriptors.

use super::New;
use super::decode::{Announce, Context, Step};
use crate::event::{FileKind, Identity, IoEvent};

const CLOSE_RANGE_UNSHARE: u32 = 2;
const CLOSE_RANGE_CLOEXEC: u32 = 4;

// fcntl commands that libc does not name.
const F_DUPFD_QUERY: i32 = 1027;
const F_CREATED_QUERY: i32 = 1028;
const F_GET_RW_HINT: i32 = 1035;
const F_SET_FILE_RW_HINT: i32 = 1038;
const F_GETOWNER_UIDS: i32 = 17;

/// fcntl commands that ask for something the process knows already, and thus
/// need not be watched.
pub(super) const HARMLESS_FCNTL: [i32; 11] = [
    libc::F_GETFD,
    libc::F_GETFL,
    libc::F_GETOWN,
    11, // F_GETSIG
    16, // F_GETOWN_EX
    F_GETOWNER_UIDS,
    libc::F_GETLEASE,
    libc::F_GETPIPE_SZ,
    libc::F_GET_SEALS,
    F_DUPFD_QUERY,
    F_CREATED_QUERY,
];

impl Context<'_> {
    /// A descriptor is gone whatever close(2) returns, so its exit is not
    /// needed; and the number cannot be given out again before.
    pub(super) fn close(&mut self) -> Option<Step> {
        let fd = self.int(0);
        if let Some(table) = self.model.table_mut(self.tid) {
            table.close(fd);
        }
        None
    }

    pub(super) fn close_range(&mut self) -> Option<Step> {
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
    pub(super) fn duplicate(&mut self, old: i32, cloexec: bool) -> Option<Step> {
        self.file(old)?;
        Some(Step::Duplicate { old, cloexec })
    }

    pub(super) fn duplicate_onto(&mut self, flags: i32) -> Option<Step> {
        let (old, new) = (self.int(0), self.int(1));
        if old == new {
            // dup2 does nothing, dup3 fails.
            return None;
        }
        self.duplicate(old, flags & libc::O_CLOEXEC != 0)
    }

    pub(super) fn fcntl(&mut self) -> Option<Step> {
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
            libc::F_SETFL => Some(Step::StatusFlags {
                file: self.file(fd)?,
                append: Some(argument & libc::O_APPEND != 0),
                nonblocking: Some(argument & libc::O_NONBLOCK != 0),
            }),
            libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW => self.lock(),
            libc::F_SETPIPE_SZ => {
                let file = self.file(fd)?;
                file.creator.is_none().then_some(())?;
                Some(Step::Report(IoEvent::StateChange {
                    what: "size of an inherited pipe",
                }))
            }
            libc::F_ADD_SEALS | F_GET_RW_HINT..=F_SET_FILE_RW_HINT => None,
            command if HARMLESS_FCNTL.contains(&command) => None,
            libc::F_SETLEASE | libc::F_CANCELLK => {
                self.unsupported("leases wait for other processes")
            }
            libc::F_NOTIFY => self.unsupported("directory notifications"),
            libc::F_SETOWN | 10 | 15 => self.unsupported("signals announce input or output"),
            _ => self.unsupported("an fcntl command that is not modelled"),
        }
    }

    /// `family` is given for socketpair, whose type argument carries the flags.
    pub(super) fn pair(&mut self, address: u64, flags: i32, family: Option<i32>) -> Option<Step> {
        Some(Step::Pair {
            address,
            flags,
            family,
        })
    }

    /// The flags of all these calls are `O_CLOEXEC` and `O_NONBLOCK` under
    /// other names.
    pub(super) fn anonymous(&mut self, name: &'static str, flags: i32) -> Option<Step> {
        let new = New::anonymous(FileKind::Anon(name), flags & libc::O_NONBLOCK != 0);
        self.create(new, flags & libc::O_CLOEXEC != 0, Announce::Nothing)
    }

    pub(super) fn inotify(&mut self, flags: i32) -> Option<Step> {
        let mut new = New::anonymous(FileKind::Anon("inotify"), flags & libc::O_NONBLOCK != 0);
        new.writable = false;
        let reason = "file notifications depend on what others do";
        let cloexec = flags & libc::O_CLOEXEC != 0;
        self.create(new, cloexec, Announce::Unsupported(reason))
    }

    pub(super) fn memfd(&mut self, cloexec: bool) -> Option<Step> {
        let new = New::anonymous(FileKind::MemFd, false);
        self.create(new, cloexec, Announce::Nothing)
    }

    /// A pidfd is always close-on-exec. One of a process outside the model looks
    /// at it (whether it exists, and later when it ends).
    pub(super) fn pidfd_open(&mut self) -> Option<Step> {
        if self.model.task(self.int(0)).is_none() {
            self.push(IoEvent::Identity {
                what: Identity::OtherProcess,
            });
        }
        let nonblocking = self.int(1) & libc::O_NONBLOCK != 0;
        let new = New::anonymous(FileKind::Anon("pidfd"), nonblocking);
        self.create(new, true, Announce::Nothing)
    }
}
