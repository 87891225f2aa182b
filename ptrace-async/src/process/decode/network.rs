//! Sockets.

use super::context::EntryContext;
use super::step::{ExitStep, Report};
use crate::event::{FileKind, IoEvent, PathRef};
use crate::process::model::NewDescription;
use crate::process::{nr, paths};

/// `sockaddr_un`: the family and up to 108 bytes of path.
const SOCKADDR_UN: usize = 110;

impl EntryContext<'_> {
    /// Making a socket has no effect outside yet. The event is for tools that need the
    /// address family.
    pub(super) fn socket(&mut self) -> Option<ExitStep> {
        let (family, flags) = (self.int(0), self.int(1));
        let new =
            NewDescription::anonymous(FileKind::Socket(family), flags & libc::SOCK_NONBLOCK != 0);
        let cloexec = flags & libc::SOCK_CLOEXEC != 0;
        self.create(new, cloexec, Report::Network("socket"))
    }

    pub(super) fn accept(&mut self, flags: i32) -> Option<ExitStep> {
        let listener = self.file(self.int(0))?;
        let new =
            NewDescription::anonymous(listener.kind.clone(), flags & libc::SOCK_NONBLOCK != 0);
        let cloexec = flags & libc::SOCK_CLOEXEC != 0;
        self.create(new, cloexec, Report::Network("accept"))
    }

    /// Any other socket operation, reported by its name.
    pub(super) fn network(&mut self) -> Option<ExitStep> {
        let file = self.file(self.int(0))?;
        self.push(IoEvent::Network {
            what: nr::name(self.nr),
            file: Some(file),
        });
        None
    }

    /// The path of a local address in the file system (not an abstract one).
    fn local_address(&mut self) -> Option<PathRef> {
        let length = (self.uint(2) as usize).min(SOCKADDR_UN);
        let mut bytes = [0; SOCKADDR_UN];
        let got = self.memory.read(self.args[1], &mut bytes[..length]);
        let [low, high, path @ ..] = &bytes[..got] else {
            return None;
        };
        if i32::from(u16::from_le_bytes([*low, *high])) != libc::AF_UNIX {
            return None;
        }
        let end = memchr::memchr(0, path).unwrap_or(path.len());
        let path = &path[..end];
        let base = match path.first()? {
            b'/' => self.model.root(self.tid),
            _ => self.model.cwd(self.tid),
        };
        Some(paths::join(base?, path, true))
    }

    /// A refused connection observes that no process listens at the path.
    pub(super) fn connect(&mut self) -> Option<ExitStep> {
        let Some(path) = self.local_address() else {
            return self.network();
        };
        let file = Some(self.file(self.int(0))?);
        Some(ExitStep::Connect { path, file })
    }

    pub(super) fn bind(&mut self) -> Option<ExitStep> {
        self.network();
        let mut path = self.local_address()?;
        path.follow = false;
        self.change(IoEvent::MakeNode {
            path,
            mode: libc::S_IFSOCK | 0o777,
            device: 0,
        })
    }

    pub(super) fn receive_messages(&mut self, many: bool) -> Option<ExitStep> {
        self.network();
        Some(ExitStep::Messages {
            address: self.args[1],
            many,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::process::nr;
    use crate::process::testing::{Case, TID};

    /// `struct sockaddr_un`
    fn address(case: &mut Case, path: &str) -> (u64, u64) {
        let mut bytes = vec![1, 0];
        bytes.extend_from_slice(path.as_bytes());
        bytes.push(0);
        (case.bytes(&bytes), bytes.len() as u64)
    }

    #[test]
    fn sockets_are_descriptors_of_their_family() {
        let mut case = Case::new();
        let flags = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64;
        case.check(
            nr::socket,
            &[2, flags, 0],
            3,
            &["network socket <Socket(2)>"],
        );
        case.check(nr::listen, &[3, 1], 0, &["network listen <Socket(2)>"]);
        case.check(nr::accept, &[3, 0, 0], 4, &["network accept <Socket(2)>"]);
        case.check(nr::sendto, &[4], 0, &["network sendto <Socket(2)>"]);
        assert_eq!(case.descriptors(TID), "0 1 2 3* 4");
        let inet = case.bytes(&[2, 0, 0, 80, 127, 0, 0, 1]);
        case.check(
            nr::connect,
            &[3, inet, 8],
            -111,
            &["network connect <Socket(2)>"],
        );
    }

    #[test]
    fn a_local_address_is_a_path() {
        let mut case = Case::new();
        case.call(nr::socket, &[1, 1, 0], 3);
        let (at, length) = address(&mut case, "sock");
        let made = "mknod /base/sock@ 140777 0";
        case.check(
            nr::bind,
            &[3, at, length],
            0,
            &["network bind <Socket(1)>", made],
        );
        assert_eq!(case.about, ["/base/sock@"]);
        let looked = ["find /base/sock", "network connect <Socket(1)>"];
        case.check(nr::connect, &[3, at, length], 0, &looked);
        case.check(
            nr::connect,
            &[3, at, length],
            -2,
            &["connect /base/sock fails 2"],
        );
        // An abstract name is no path.
        let (at, length) = address(&mut case, "\0name");
        case.check(
            nr::connect,
            &[3, at, length],
            -111,
            &["network connect <Socket(1)>"],
        );
    }

    #[test]
    fn descriptors_in_messages_are_received() {
        let mut case = Case::new();
        case.call(nr::socket, &[1, 1, 0], 3);
        // cmsghdr { 24, SOL_SOCKET, SCM_RIGHTS } 7 8, then one that is none.
        let rights = 1 << 32 | 1;
        let control = case.words(&[24, rights, 8 << 32 | 7, 20, 2 << 32 | 1, 9]);
        let header = case.words(&[0, 0, 0, 0, control, 48, 0]);
        let expected = ["network recvmsg <Socket(1)>", "received 7", "received 8"];
        case.check(nr::recvmsg, &[3, header, 0], 1, &expected);
        assert_eq!(case.descriptors(TID), "0 1 2 3 7 8");
        let headers = case.words(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, control, 24, 0, 0]);
        let expected = ["network recvmmsg <Socket(1)>", "received 7", "received 8"];
        case.check(nr::recvmmsg, &[3, headers, 2], 2, &expected);
        // Sizes that lie lead nowhere.
        let control = case.words(&[u64::MAX, rights, 1]);
        let header = case.words(&[0, 0, 0, 0, control, u64::MAX, 0]);
        case.call(nr::recvmsg, &[3, header, 0], 1);
    }
}
