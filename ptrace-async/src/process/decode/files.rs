//! Calls that observe or change the file tree.

use super::context::{AT_FDCWD, EntryContext};
use super::step::ExitStep;
use crate::event::{AttributeChange, FileRef, IoEvent, PathRef, TimeChange};

const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;
/// The kernel's limit of an attribute's name, with its NUL.
const XATTR_NAME_MAX: usize = 256;

/// How an extended attribute call names its file.
type Namer<'a> = fn(&mut EntryContext<'a>) -> Option<FileRef>;

// Looking.
impl<'a> EntryContext<'a> {
    pub(super) fn stat(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<ExitStep> {
        let event = match self.file_ref(dirfd, address, flags)? {
            FileRef::Path(path) => IoEvent::Stat { path },
            FileRef::File(file) => IoEvent::StatFile { file },
        };
        self.push(event);
        None
    }

    pub(super) fn fstat(&mut self) -> Option<ExitStep> {
        let file = self.file(self.int(0))?;
        self.push(IoEvent::StatFile { file });
        None
    }

    pub(super) fn access(
        &mut self,
        dirfd: i32,
        address: u64,
        mode: i32,
        flags: i32,
    ) -> Option<ExitStep> {
        let effective = flags & libc::AT_EACCESS != 0;
        let path = match self.file_ref(dirfd, address, flags)? {
            FileRef::Path(path) => path,
            FileRef::File(file) => match &file.path {
                Some(path) => PathRef::followed(path.clone()),
                None => {
                    self.push(IoEvent::StatFile { file });
                    return None;
                }
            },
        };
        self.push(IoEvent::Access {
            path,
            mode,
            effective,
        });
        None
    }

    /// The empty path reads the link that a descriptor was opened on (`O_PATH |
    /// O_NOFOLLOW`). With `AT_FDCWD` it names the working directory, which is no link.
    pub(super) fn readlink(&mut self, dirfd: i32, address: u64, room: i32) -> Option<ExitStep> {
        if room <= 0 {
            // It fails before anybody looks.
            return None;
        }
        let mut flags = libc::AT_SYMLINK_NOFOLLOW;
        if dirfd != AT_FDCWD {
            flags |= libc::AT_EMPTY_PATH;
        }
        let path = match self.file_ref(dirfd, address, flags)? {
            FileRef::Path(path) => path,
            FileRef::File(file) => PathRef {
                follow: false,
                ..PathRef::followed(file.path.clone()?)
            },
        };
        self.push(IoEvent::ReadLink { path });
        None
    }

    pub(super) fn statfs(&mut self) -> Option<ExitStep> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.push(IoEvent::StatFs {
            file: FileRef::Path(path),
        });
        None
    }

    pub(super) fn fstatfs(&mut self) -> Option<ExitStep> {
        let file = self.by_descriptor()?;
        self.push(IoEvent::StatFs { file });
        None
    }

    pub(super) fn by_path(&mut self) -> Option<FileRef> {
        self.file_ref(AT_FDCWD, self.args[0], 0)
    }

    pub(super) fn by_link(&mut self) -> Option<FileRef> {
        self.file_ref(AT_FDCWD, self.args[0], libc::AT_SYMLINK_NOFOLLOW)
    }

    pub(super) fn by_descriptor(&mut self) -> Option<FileRef> {
        self.file(self.int(0)).map(FileRef::File)
    }

    pub(super) fn by_at(&mut self) -> Option<FileRef> {
        self.file_ref(self.int(0), self.args[1], self.int(2))
    }

    pub(super) fn xattr_read(&mut self, namer: Namer<'a>, name: Option<usize>) -> Option<ExitStep> {
        let file = namer(self)?;
        let name = match name {
            Some(index) => Some(self.attribute(index)?),
            None => None,
        };
        self.push(IoEvent::XattrRead { file, name });
        None
    }

    fn attribute(&self, index: usize) -> Option<Vec<u8>> {
        let address = self.args[index];
        self.memory.read_c_string(address, XATTR_NAME_MAX).ok()
    }
}

// Changing.
impl<'a> EntryContext<'a> {
    pub(super) fn xattr_write(
        &mut self,
        namer: Namer<'a>,
        name: usize,
        how: AttributeChange,
    ) -> Option<ExitStep> {
        let file = namer(self)?;
        let name = self.attribute(name)?;
        self.change(IoEvent::XattrWrite { file, name, how })
    }

    /// Returns how setxattr(2) and its relatives change the attribute.
    pub(super) fn attribute_change(&self) -> AttributeChange {
        match self.int(4) {
            0 => AttributeChange::Set,
            libc::XATTR_CREATE => AttributeChange::Create,
            _ => AttributeChange::Replace,
        }
    }

    pub(super) fn mkdir(&mut self, dirfd: i32, address: u64, mode: u32) -> Option<ExitStep> {
        let path = self.path(dirfd, address, false)?;
        self.change(IoEvent::MakeDir { path, mode })
    }

    pub(super) fn mknod(
        &mut self,
        dirfd: i32,
        address: u64,
        mode: u32,
        device: u64,
    ) -> Option<ExitStep> {
        let path = self.path(dirfd, address, false)?;
        self.change(IoEvent::MakeNode { path, mode, device })
    }

    pub(super) fn unlink(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<ExitStep> {
        let path = self.path(dirfd, address, false)?;
        self.change(if flags & libc::AT_REMOVEDIR != 0 {
            IoEvent::RemoveDir { path }
        } else {
            IoEvent::Unlink { path }
        })
    }

    pub(super) fn rename(
        &mut self,
        from: (i32, u64),
        to: (i32, u64),
        flags: u32,
    ) -> Option<ExitStep> {
        let from = self.path(from.0, from.1, false)?;
        let to = self.path(to.0, to.1, false)?;
        if flags & RENAME_WHITEOUT != 0 {
            self.unsupported("the rename leaves a whiteout behind");
        }
        self.change(IoEvent::Rename {
            from,
            to,
            exchange: flags & RENAME_EXCHANGE != 0,
        })
    }

    pub(super) fn link(
        &mut self,
        from: (i32, u64),
        to: (i32, u64),
        flags: i32,
    ) -> Option<ExitStep> {
        let nofollow = if flags & libc::AT_SYMLINK_FOLLOW == 0 {
            libc::AT_SYMLINK_NOFOLLOW
        } else {
            0
        };
        let mut from = self.file_ref(from.0, from.1, flags & libc::AT_EMPTY_PATH | nofollow)?;
        let to = self.path(to.0, to.1, false)?;
        // An unnamed file is given a name through its link in /proc.
        if let FileRef::Path(path) = &from
            && let Some(file) = self.own_descriptor_file(path)
        {
            from = FileRef::File(file);
        }
        self.about_to_change.push(to.clone());
        Some(ExitStep::Change(IoEvent::Link { from, to }))
    }

    pub(super) fn symlink(&mut self, target: u64, dirfd: i32, address: u64) -> Option<ExitStep> {
        let path = self.path(dirfd, address, false)?;
        let target = self.memory.read_c_string(target, 4096).ok()?;
        self.change(IoEvent::Symlink { target, path })
    }

    pub(super) fn truncate(&mut self) -> Option<ExitStep> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.change(IoEvent::Truncate {
            file: FileRef::Path(path),
            length: self.args[1],
        })
    }

    pub(super) fn ftruncate(&mut self, length: u64) -> Option<ExitStep> {
        let file = self.by_descriptor()?;
        self.change(IoEvent::Truncate { file, length })
    }

    pub(super) fn chmod(
        &mut self,
        dirfd: i32,
        address: u64,
        mode: u32,
        flags: i32,
    ) -> Option<ExitStep> {
        let file = self.file_ref(dirfd, address, flags)?;
        self.change(IoEvent::Chmod { file, mode })
    }

    pub(super) fn fchmod(&mut self) -> Option<ExitStep> {
        let file = self.by_descriptor()?;
        let mode = self.uint(1);
        self.change(IoEvent::Chmod { file, mode })
    }

    pub(super) fn chown(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<ExitStep> {
        let file = self.file_ref(dirfd, address, flags)?;
        self.change(IoEvent::Chown { file })
    }

    pub(super) fn fchown(&mut self) -> Option<ExitStep> {
        let file = self.by_descriptor()?;
        self.change(IoEvent::Chown { file })
    }
}

// Timestamps.
impl EntryContext<'_> {
    /// `struct utimbuf`: two times in seconds.
    pub(super) fn utime(&mut self) -> Option<ExitStep> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        let times = match self.args[1] {
            0 => [TimeChange::Now; 2],
            address => {
                let [accessed, modified] = self.words(address)?;
                [TimeChange::At(accessed, 0), TimeChange::At(modified, 0)]
            }
        };
        self.set_times(FileRef::Path(path), times)
    }

    /// `struct timeval[2]`: seconds and microseconds.
    pub(super) fn utimes(&mut self, dirfd: i32, path: u64, times: u64) -> Option<ExitStep> {
        let file = self.times_file(dirfd, path, 0)?;
        let times = match times {
            0 => [TimeChange::Now; 2],
            address => {
                let [a, a_micros, m, m_micros] = self.words(address)?;
                [(a, a_micros), (m, m_micros)]
                    .map(|(seconds, micros)| TimeChange::At(seconds, micros.wrapping_mul(1000)))
            }
        };
        self.set_times(file, times)
    }

    /// `struct timespec[2]`, with values that mean "now" and "leave".
    pub(super) fn utimensat(&mut self) -> Option<ExitStep> {
        let file = self.times_file(self.int(0), self.args[1], self.int(3))?;
        let change = |seconds: i64, nanos: i64| match nanos {
            libc::UTIME_NOW => TimeChange::Now,
            libc::UTIME_OMIT => TimeChange::Keep,
            nanos => TimeChange::At(seconds, nanos),
        };
        let times = match self.args[2] {
            0 => [TimeChange::Now; 2],
            address => {
                let [a, a_nanos, m, m_nanos] = self.words(address)?;
                [change(a, a_nanos), change(m, m_nanos)]
            }
        };
        self.set_times(file, times)
    }

    /// These calls take NULL for "the descriptor itself".
    fn times_file(&mut self, dirfd: i32, path: u64, flags: i32) -> Option<FileRef> {
        if path == 0 {
            return self.file(dirfd).map(FileRef::File);
        }
        self.file_ref(dirfd, path, flags)
    }

    fn set_times(&mut self, file: FileRef, times: [TimeChange; 2]) -> Option<ExitStep> {
        let [accessed, modified] = times;
        self.change(IoEvent::SetTimes {
            file,
            accessed,
            modified,
        })
    }

    fn words<const N: usize>(&self, address: u64) -> Option<[i64; N]> {
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..N * 8];
        self.memory.read_exact(address, bytes).ok()?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = i64::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use crate::process::nr;
    use crate::process::testing::{CWD, Case, TID};

    const EMPTY: u64 = libc::AT_EMPTY_PATH as u64;
    const NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;

    #[test]
    fn lookups_are_reported_at_entry() {
        let mut case = Case::new();
        for (nr, expected) in [
            (nr::stat, "stat /base/a"),
            (nr::lstat, "stat /base/a@"),
            (nr::access, "access /base/a 4"),
            (nr::readlink, "readlink /base/a@"),
            (nr::statfs, "statfs /base/a"),
        ] {
            case.check_path(nr, "a", &[4, 64], &[expected]);
            assert!(!case.exited);
            assert!(case.about.is_empty());
        }
    }

    #[test]
    fn the_at_variants_decode_their_flags() {
        let mut case = Case::new();
        case.open("/d", libc::O_PATH, 3);
        let (path, empty) = (case.text("a"), case.text(""));
        case.check(nr::newfstatat, &[3, path, 0, 0], 0, &["stat /d/a"]);
        case.check(nr::newfstatat, &[3, path, 0, NOFOLLOW], 0, &["stat /d/a@"]);
        case.check(nr::newfstatat, &[3, empty, 0, EMPTY], 0, &["stat </d>"]);
        case.check(nr::newfstatat, &[3, 0, 0, EMPTY], 0, &["stat </d>"]);
        case.check(nr::newfstatat, &[3, path, 0, EMPTY], 0, &["stat /d/a"]);
        case.check(nr::newfstatat, &[CWD, empty, 0, EMPTY], 0, &["stat /base"]);
        case.check(nr::newfstatat, &[3, empty, 0, 0], -2, &[]);
        case.check(nr::statx, &[3, empty, EMPTY, 0xfff], 0, &["stat </d>"]);
        case.check(nr::statx, &[CWD, path, NOFOLLOW], 0, &["stat /base/a@"]);
        case.check(nr::fstat, &[1], 0, &["stat <Pipe { pipe: 77 }>"]);
        case.check(nr::fstat, &[99], -9, &[]);
        let effective = libc::AT_EACCESS as u64;
        case.check(
            nr::faccessat2,
            &[3, path, 1, effective],
            0,
            &["access /d/a 1 effective"],
        );
        case.check(nr::faccessat2, &[3, empty, 1, EMPTY], 0, &["access /d 1"]);
        case.check(
            nr::readlinkat,
            &[3, empty, 0x1000, 64],
            0,
            &["readlink /d@"],
        );
        // The working directory is no link.
        case.check(nr::readlinkat, &[CWD, empty, 0x1000, 64], -2, &[]);
        case.check(nr::readlink, &[empty, 0x1000, 64], -2, &[]);
        // It fails before it looks.
        case.check(nr::readlinkat, &[3, empty, 0x1000, 0], -22, &[]);
        case.check(nr::fstatfs, &[3], 0, &["statfs </d>"]);
        case.check(nr::getdents64, &[3], 0, &["list </d>"]);
        assert!(!case.exited);
    }

    #[test]
    fn changes_are_announced_and_reported_when_they_succeeded() {
        let mut case = Case::new();
        case.check_path(nr::mkdir, "d/", &[0o755], &["mkdir /base/d 755"]);
        assert_eq!(case.about, ["/base/d"]);
        case.check_path(nr::rmdir, "d", &[], &["rmdir /base/d@"]);
        case.check_path(nr::unlink, "f", &[], &["unlink /base/f@"]);
        assert_eq!(case.about, ["/base/f@"]);
        case.check_path(nr::mknod, "p", &[0o10644, 0], &["mknod /base/p@ 10644 0"]);
        case.check_path(nr::truncate, "f", &[7], &["truncate /base/f 7"]);
        case.check_path(nr::chmod, "f", &[0o600], &["chmod /base/f 600"]);
        case.check_path(nr::chown, "f", &[1, 1], &["chown /base/f"]);
        case.check_path(nr::lchown, "f", &[1, 1], &["chown /base/f@"]);
        let (a, b) = (case.text("a"), case.text("b"));
        case.check(nr::rename, &[a, b], 0, &["rename /base/a@ -> /base/b@"]);
        assert_eq!(case.about, ["/base/a@", "/base/b@"]);
        case.check(nr::link, &[a, b], 0, &["link /base/a@ -> /base/b@"]);
        assert_eq!(case.about, ["/base/b@"]);
        case.check(nr::symlink, &[a, b], 0, &["symlink /base/b@ -> a"]);
        let removedir = libc::AT_REMOVEDIR as u64;
        case.check(nr::unlinkat, &[CWD, a, removedir], 0, &["rmdir /base/a@"]);
        case.check(
            nr::renameat2,
            &[CWD, a, CWD, b, 2],
            0,
            &["rename /base/a@ <-> /base/b@"],
        );
    }

    #[test]
    fn changes_through_a_descriptor_announce_its_path() {
        let mut case = Case::new();
        case.open("f", libc::O_RDWR, 3);
        case.check(nr::ftruncate, &[3, 5], 0, &["truncate </base/f> 5"]);
        assert_eq!(case.about, ["/base/f"]);
        case.check(
            nr::fallocate,
            &[3, 0, 10, 20],
            0,
            &["truncate </base/f> 30"],
        );
        case.check(
            nr::fallocate,
            &[3, 0, u64::MAX, 20],
            -22,
            &["fallocate /base/f fails 22"],
        );
        case.check(nr::fchmod, &[3, 0o640], 0, &["chmod </base/f> 640"]);
        case.check(nr::fchown, &[3, 0, 0], 0, &["chown </base/f>"]);
        let empty = case.text("");
        case.check(
            nr::fchownat,
            &[3, empty, 0, 0, EMPTY],
            0,
            &["chown </base/f>"],
        );
        case.check(nr::ftruncate, &[99, 5], -9, &[]);
    }

    #[test]
    fn a_failed_change_is_an_observation() {
        let mut case = Case::new();
        let (a, b) = (case.text("a"), case.text("b"));
        case.check(nr::mkdir, &[a, 0o755], -17, &["mkdir /base/a@ fails 17"]);
        assert_eq!(case.about, ["/base/a@"]);
        case.check(
            nr::rename,
            &[a, b],
            -2,
            &["rename /base/a@ /base/b@ fails 2"],
        );
        case.check(
            nr::unlinkat,
            &[CWD, a, 0],
            -2,
            &["unlinkat /base/a@ fails 2"],
        );
        // It comes again after the signal.
        case.check(nr::unlink, &[a], -513, &[]);
    }

    #[test]
    fn timestamps_come_in_four_spellings() {
        let mut case = Case::new();
        let path = case.text("f");
        case.open("g", 0, 3);
        let two = case.words(&[1, 2]);
        let four = case.words(&[1, 2, 3, 4]);
        case.check(
            nr::utime,
            &[path, two],
            0,
            &["times /base/f At(1, 0) At(2, 0)"],
        );
        case.check(nr::utime, &[path, 0], 0, &["times /base/f Now Now"]);
        case.check(
            nr::utimes,
            &[path, four],
            0,
            &["times /base/f At(1, 2000) At(3, 4000)"],
        );
        case.check(
            nr::utimensat,
            &[CWD, path, four, NOFOLLOW],
            0,
            &["times /base/f@ At(1, 2) At(3, 4)"],
        );
        let special = case.words(&[0, libc::UTIME_OMIT as u64, 0, libc::UTIME_NOW as u64]);
        case.check(
            nr::utimensat,
            &[3, 0, special, 0],
            0,
            &["times </base/g> Keep Now"],
        );
        assert_eq!(case.about, ["/base/g"]);
        case.check(nr::utimensat, &[CWD, path, 8, 0], -14, &[]);
    }

    #[test]
    fn extended_attributes_have_names() {
        let mut case = Case::new();
        let (path, name) = (case.text("f"), case.text("user.x"));
        case.open("g", 0, 3);
        case.check(nr::getxattr, &[path, name], 0, &["xattr /base/f user.x"]);
        case.check(nr::llistxattr, &[path], 0, &["xattr /base/f@ *"]);
        case.check(nr::fgetxattr, &[3, name], 0, &["xattr </base/g> user.x"]);
        assert!(!case.exited);
        case.check(
            nr::lsetxattr,
            &[path, name],
            0,
            &["set xattr /base/f@ user.x"],
        );
        case.check(
            nr::fremovexattr,
            &[3, name],
            0,
            &["remove xattr </base/g> user.x"],
        );
        case.check(
            nr::setxattrat,
            &[CWD, path, NOFOLLOW, name],
            0,
            &["replace xattr /base/f@ user.x"],
        );
    }

    #[test]
    fn renames_carry_descriptors_and_directories_along() {
        let mut case = Case::new();
        case.open("d/sub", libc::O_DIRECTORY, 3);
        case.open("d/sub/f", libc::O_RDWR, 4);
        case.call(nr::dup, &[4], 5);
        case.call(nr::fchdir, &[3], 0);
        assert_eq!(case.model.cwd(TID), Some("/base/d/sub".as_ref()));
        let id = case.model.file(TID, 4).unwrap().id;
        let (d, e) = (case.text("/base/d"), case.text("/base/e"));
        case.call(nr::rename, &[d, e], 0);
        assert_eq!(case.path_of(3), Some("/base/e/sub".as_ref()));
        assert_eq!(case.path_of(4), Some("/base/e/sub/f".as_ref()));
        assert_eq!(case.model.cwd(TID), Some("/base/e/sub".as_ref()));
        let (file, copy) = (
            case.model.file(TID, 4).unwrap(),
            case.model.file(TID, 5).unwrap(),
        );
        assert_eq!(file.id, id);
        assert!(std::rc::Rc::ptr_eq(file, copy));
        let (f, g) = (case.text("f"), case.text("g"));
        case.call(nr::renameat, &[3, f, 3, g], 0);
        assert_eq!(case.path_of(5), Some("/base/e/sub/g".as_ref()));
    }

    #[test]
    fn an_exchange_moves_both_sides() {
        let mut case = Case::new();
        case.open("a/f", 0, 3);
        case.open("b/f", 0, 4);
        let (a, b) = (case.text("a"), case.text("b"));
        case.call(nr::renameat2, &[CWD, a, CWD, b, 2], 0);
        assert_eq!(case.path_of(3), Some("/base/b/f".as_ref()));
        assert_eq!(case.path_of(4), Some("/base/a/f".as_ref()));
    }

    #[test]
    fn a_changed_root_comes_before_absolute_paths() {
        let mut case = Case::new();
        case.check_path(nr::chroot, "/jail", &[], &["find /jail", "chroot /jail"]);
        case.check_path(nr::stat, "/etc/x", &[], &["stat /jail/etc/x"]);
        case.check_path(nr::stat, "x", &[], &["stat /base/x"]);
        assert_eq!(case.model.root(TID), Some("/jail".as_ref()));
    }
}
