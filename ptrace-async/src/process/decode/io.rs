//! Reads, writes, copies inside the kernel, polling, mappings, locks and device control.

use std::rc::Rc;

use super::context::EntryContext;
use super::step::{Buffers, ExitStep, PendingWrite};
use crate::event::{FileKind, IoEvent, OpenFile};
use crate::process::commands::{
    FICLONE, FICLONERANGE, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD, TCGETS, TCGETS2, TIOCGWINSZ,
};
use crate::process::proc;

/// How many entries of a poll set are examined.
const POLL_LIMIT: u64 = 65_536;
const POLL_INPUT: i16 = libc::POLLIN | libc::POLLPRI | libc::POLLRDNORM | libc::POLLRDBAND;
const EPOLL_INPUT: u32 =
    (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM | libc::EPOLLRDBAND | libc::EPOLLRDHUP)
        as u32;

/// Whether reading or polling a file observes something outside of the file tree.
fn is_stream(file: &OpenFile) -> bool {
    match file.kind {
        FileKind::Pipe { .. } => true,
        FileKind::Socket(_) | FileKind::Terminal => file.creator.is_none(),
        _ => false,
    }
}

impl EntryContext<'_> {
    pub(super) fn read(&mut self, positioned: bool) -> Option<ExitStep> {
        self.read_by(self.int(0), positioned)
    }

    fn read_by(&mut self, fd: i32, positioned: bool) -> Option<ExitStep> {
        let file = self.file(fd)?;
        self.push(IoEvent::Read {
            fd,
            file,
            positioned,
        });
        None
    }

    pub(super) fn write(&mut self, buffers: Buffers, positioned: bool) -> Option<ExitStep> {
        let fd = self.int(0);
        let file = self.file(fd)?;
        Some(ExitStep::Write(Box::new(PendingWrite {
            fd,
            file,
            positioned,
            source: None,
            buffers,
            length: None,
        })))
    }

    /// A copy inside the kernel between two (descriptor, has an offset).
    pub(super) fn transfer(&mut self, from: (i32, bool), to: (i32, bool)) -> Option<ExitStep> {
        let source = self.file(from.0)?;
        let target = self.file(to.0)?;
        self.copied(from, source, to, target, None)
    }

    fn copied(
        &mut self,
        from: (i32, bool),
        source: Rc<OpenFile>,
        to: (i32, bool),
        target: Rc<OpenFile>,
        length: Option<u64>,
    ) -> Option<ExitStep> {
        self.push(IoEvent::Read {
            fd: from.0,
            file: Rc::clone(&source),
            positioned: from.1,
        });
        Some(ExitStep::Write(Box::new(PendingWrite {
            fd: to.0,
            file: target,
            positioned: to.1,
            source: Some(source),
            buffers: Buffers::None,
            length,
        })))
    }

    /// Pages go into a pipe, or bytes come out of one.
    pub(super) fn vmsplice(&mut self) -> Option<ExitStep> {
        let file = self.file(self.int(0))?;
        if file.writable {
            self.write(Buffers::None, false)
        } else {
            self.read(false)
        }
    }

    pub(super) fn lseek(&mut self) -> Option<ExitStep> {
        let fd = self.int(0);
        let file = self.file(fd)?;
        let whence = self.int(2);
        let measures = !matches!(whence, libc::SEEK_SET | libc::SEEK_CUR);
        self.push(IoEvent::Seek { fd, file, measures });
        None
    }

    fn polled(&mut self, fd: i32) {
        if let Some(file) = self.model.file(self.tid, fd).cloned()
            && is_stream(&file)
        {
            self.push(IoEvent::Read {
                fd,
                file,
                positioned: false,
            });
        }
    }

    /// `struct pollfd { int fd; short events, revents; }[]`
    pub(super) fn poll(&mut self) -> Option<ExitStep> {
        let count = u64::from(self.uint(1)).min(POLL_LIMIT);
        let mut address = self.args[0];
        let mut block = [0; 512];
        let mut left = count as usize * 8;
        while left > 0 {
            let want = left.min(block.len());
            let got = self.memory.read(address, &mut block[..want]);
            for entry in block[..got].chunks_exact(8) {
                let fd = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                let events = i16::from_le_bytes([entry[4], entry[5]]);
                if events & POLL_INPUT != 0 {
                    self.polled(fd);
                }
            }
            if got < want {
                break;
            }
            address = address.wrapping_add(want as u64);
            left -= want;
        }
        None
    }

    /// A bit per descriptor.
    pub(super) fn select(&mut self) -> Option<ExitStep> {
        let count = u64::from(self.uint(0)).min(POLL_LIMIT);
        // In from the read set, urgent data from the exceptional one.
        for address in [self.args[1], self.args[3]] {
            if address == 0 || self.int(0) <= 0 {
                continue;
            }
            let mut bits = vec![0; count.div_ceil(8) as usize];
            let got = self.memory.read(address, &mut bits);
            for (index, byte) in bits[..got].iter().enumerate() {
                for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
                    let fd = index * 8 + bit;
                    if (fd as u64) < count {
                        self.polled(fd as i32);
                    }
                }
            }
        }
        None
    }

    /// A descriptor that is registered for input counts as read, because waiting is not
    /// watched.
    pub(super) fn epoll_ctl(&mut self) -> Option<ExitStep> {
        if self.int(1) != libc::EPOLL_CTL_DEL {
            let events = self.memory.read_i32(self.args[3]).ok()?;
            if events as u32 & EPOLL_INPUT != 0 {
                self.polled(self.int(2));
            }
        }
        None
    }

    pub(super) fn mmap(&mut self) -> Option<ExitStep> {
        let (flags, fd) = (self.int(3), self.int(4));
        if flags & libc::MAP_ANONYMOUS != 0 {
            return None;
        }
        if (0..3).contains(&fd) {
            self.read_by(fd, true);
        }
        let shared = flags & libc::MAP_SHARED != 0;
        let file = shared.then(|| self.file(fd))??;
        // mprotect(2) can make a read-only mapping writable later.
        Some(match file.writable {
            true => ExitStep::Report(IoEvent::MapShared { file }),
            false => ExitStep::Result,
        })
    }

    /// Whether a lock is free depends on other processes, so the result is shown.
    pub(super) fn lock(&mut self) -> Option<ExitStep> {
        let file = self.file(self.int(0))?;
        self.push(IoEvent::Lock { file });
        Some(ExitStep::Result)
    }

    pub(super) fn ioctl(&mut self) -> Option<ExitStep> {
        let (fd, request) = (self.int(0), self.uint(1));
        let file = self.file(fd)?;
        match request {
            FIOCLEX | FIONCLEX => {
                if let Some(table) = self.model.table_mut(self.tid) {
                    table.set_cloexec(fd, request == FIOCLEX);
                }
                None
            }
            FIONBIO => {
                let on = self.memory.read_i32(self.args[2]).ok()? != 0;
                Some(ExitStep::StatusFlags {
                    file,
                    append: None,
                    nonblocking: Some(on),
                })
            }
            TCGETS | TCGETS2 | TIOCGWINSZ if file.kind != FileKind::Terminal => None,
            FIONREAD if is_stream(&file) => self.read(false),
            FIONREAD if file.kind != FileKind::Terminal => None,
            FICLONE => {
                let from = self.int(2);
                let source = self.file(from)?;
                let length = proc::size(self.tid, from).unwrap_or(0);
                self.copied((from, true), source, (fd, true), file, Some(length))
            }
            FICLONERANGE => {
                // struct file_clone_range { s64 src_fd; u64 src_offset, src_length, dest_offset; }
                let from = self.memory.read_i32(self.args[2]).ok()?;
                let length = self.memory.read_u64(self.args[2].wrapping_add(16)).ok()?;
                let source = self.file(from)?;
                // Zero means: to the end.
                let length = match length {
                    0 => proc::size(self.tid, from).unwrap_or(0),
                    length => length,
                };
                self.copied((from, true), source, (fd, true), file, Some(length))
            }
            _ => {
                self.push(IoEvent::Ioctl {
                    file,
                    request: u64::from(request),
                });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::process::nr;
    use crate::process::testing::{Case, TID};

    const PIPE: &str = "<Pipe { pipe: 77 }>";

    #[test]
    fn reads_are_reported_at_entry() {
        let mut case = Case::new();
        case.open("f", 0, 7);
        case.check(nr::read, &[0, 0, 10], 10, &["read 0 </dev/pts/9>"]);
        assert!(!case.exited);
        case.check(nr::readv, &[7, 0, 1], 10, &["read 7 </base/f>"]);
        case.check(nr::preadv2, &[7, 0, 1, u64::MAX], 10, &["read 7 </base/f>"]);
        case.check(nr::read, &[42, 0, 10], -9, &[]);
        // Not shown: 3 to 5 are the process's own.
        case.open("f", 0, 3);
        case.check(nr::read, &[3, 0, 10], 10, &[]);
    }

    #[test]
    fn writes_report_the_length_that_the_kernel_took() {
        let mut case = Case::new();
        case.check(
            nr::write,
            &[1, 0x1000, 10],
            6,
            &[&format!("write 1 {PIPE} 6 [6]")],
        );
        let vector = case.words(&[0x1000, 4, 0x2000, 0, 0x3000, 10]);
        case.check(
            nr::writev,
            &[1, vector, 3],
            9,
            &[&format!("write 1 {PIPE} 9 [4] [5]")],
        );
        case.check(
            nr::pwrite64,
            &[2, 0x1000, 3, 8],
            3,
            &["write 2 </log> 3 positioned"],
        );
        case.check(
            nr::pwritev2,
            &[2, vector, 3, u64::MAX],
            4,
            &["write 2 </log> 4 [4]"],
        );
        case.check(nr::write, &[1, 0x1000, 10], -32, &[]);
        case.check(nr::write, &[1, 0x1000, 0], 0, &[]);
        case.check(nr::write, &[42, 0x1000, 1], -9, &[]);
    }

    #[test]
    fn copies_in_the_kernel_have_a_source() {
        let mut case = Case::new();
        case.open("f", 0, 3);
        let copied = format!("write 1 {PIPE} 5 from </base/f>");
        case.check(
            nr::sendfile,
            &[1, 3, 0, 9],
            5,
            &["read 3 </base/f>", &copied],
        );
        case.check(
            nr::splice,
            &[3, 8, 1, 0, 9],
            5,
            &["read 3 </base/f> positioned", &copied],
        );
        let copied = "write 2 </log> 5 positioned from </base/f>";
        case.check(
            nr::copy_file_range,
            &[3, 0, 2, 8, 9],
            5,
            &["read 3 </base/f>", copied],
        );
        case.check(nr::vmsplice, &[1, 0, 1], 5, &[&format!("write 1 {PIPE} 5")]);
    }

    #[test]
    fn a_clone_of_blocks_is_a_write() {
        let mut case = Case::new();
        case.open("f", 0, 3);
        let range = case.words(&[3, 0, 4096, 0]);
        let expected = [
            "read 3 </base/f> positioned",
            "write 2 </log> 4096 positioned from </base/f>",
        ];
        case.check(nr::ioctl, &[2, 0x4020_940d, range], 0, &expected);
    }

    #[test]
    fn polling_inherited_streams_for_input_is_reading() {
        let mut case = Case::new();
        let terminal = "read 0 </dev/pts/9>";
        let set = case.words(&[
            0x0000_0001_0000_0000,
            0x0000_0004_0000_0001,
            0x0000_0001_0000_0002,
        ]);
        case.check(nr::poll, &[set, 3, 0], 1, &[terminal]);
        assert!(!case.exited);
        case.check(nr::poll, &[0, 0, 100], 0, &[]);
        let many = case.words(&[0x0000_0001_0000_0000; 100]);
        assert_eq!(case.call(nr::ppoll, &[many, 100], 1).len(), 100);
        let bits = case.bytes(&[0b111]);
        case.check(nr::select, &[1, bits], 1, &[terminal]);
        case.check(
            nr::pselect6,
            &[3, bits],
            1,
            &[terminal, &format!("read 1 {PIPE}")],
        );
        let event = case.ints(&[1, 0, 0]);
        case.check(nr::epoll_ctl, &[9, 1, 0, event], 0, &[terminal]);
        case.check(nr::epoll_ctl, &[9, 2, 0, 0], 0, &[]);
    }

    #[test]
    fn shared_writable_mappings_are_reported_when_they_exist() {
        let mut case = Case::new();
        let read = "read 2 </log> positioned";
        case.check(
            nr::mmap,
            &[0, 4096, 3, 1, 2, 0],
            0x1000,
            &[read, "map </log>"],
        );
        case.check(nr::mmap, &[0, 4096, 3, 1, 2, 0], -13, &[read]);
        case.check(nr::mmap, &[0, 4096, 3, 2, 2, 0], 0x1000, &[read]);
        case.check(nr::mmap, &[0, 4096, 3, 0x22, 2, 0], 0x1000, &[]);
    }

    #[test]
    fn device_control_is_reported_unless_it_is_understood() {
        let mut case = Case::new();
        case.check(
            nr::ioctl,
            &[0, 0x5401, 0],
            0,
            &["ioctl </dev/pts/9> 0x5401"],
        );
        case.check(nr::ioctl, &[2, 0x5401, 0], -25, &[]);
        case.check(nr::ioctl, &[0, 0x541b, 0], 0, &["read 0 </dev/pts/9>"]);
        case.check(nr::ioctl, &[2, 0x6611, 0], 0, &["ioctl </log> 0x6611"]);
        case.check(nr::ioctl, &[2, 0x5451], 0, &[]);
        assert_eq!(case.descriptors(TID), "0 1 2*");
        case.check(nr::ioctl, &[2, 0x5450], 0, &[]);
        assert_eq!(case.descriptors(TID), "0 1 2");
        let on = case.ints(&[1]);
        let expected = "state status flags of an inherited description";
        case.check(nr::ioctl, &[1, 0x5421, on], 0, &[expected]);
        assert!(case.model.file(TID, 1).unwrap().nonblocking.get());
        case.check(nr::ioctl, &[1, 0x5421, on], 0, &[]);
    }

    #[test]
    fn positions_and_locks_are_reported() {
        let mut case = Case::new();
        case.open("f", 0, 3);
        case.check(nr::lseek, &[2, 0, 1], 0, &["seek 2 </log>"]);
        case.check(nr::lseek, &[3, 0, 1], 0, &[]);
        assert!(!case.exited);
        // The lock may be held by another process.
        case.check(nr::flock, &[3, 2], 0, &["lock </base/f>"]);
        assert!(case.exited);
        case.check(nr::fcntl, &[3, 6, 0], -11, &["lock </base/f>"]);
        assert!(case.exited);
    }
}
