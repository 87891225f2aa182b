//! Opening files by path.

use std::rc::Rc;

use super::context::{AT_FDCWD, EntryContext};
use super::step::{ExitStep, Opening, Report, open_mode};
use crate::event::{IoEvent, OpenFile, PathRef};
use crate::process::paths;

/// `RESOLVE_IN_ROOT` of openat2: the directory descriptor acts as the root.
const RESOLVE_IN_ROOT: u64 = 0x10;
const OPEN_TREE_CLONE: u32 = 1;

impl EntryContext<'_> {
    pub(super) fn open(
        &mut self,
        dirfd: i32,
        address: u64,
        flags: i32,
        mode: u32,
    ) -> Option<ExitStep> {
        let mode = open_mode(flags, mode);
        let new_only = mode.create.is_some() && mode.exclusive && !mode.tmpfile;
        let follow = flags & libc::O_NOFOLLOW == 0 && !new_only;
        let path = self.path(dirfd, address, follow)?;
        let changes = mode.write || mode.truncate || mode.create.is_some();
        let origin = self.own_descriptor_file(&path);
        if changes && !mode.tmpfile {
            let mut changed = path.clone();
            if let Some(path) = origin.as_ref().and_then(|origin| origin.path.clone()) {
                changed.path = path;
            }
            self.about_to_change.push(changed);
        }
        Some(ExitStep::Open(Box::new(Opening {
            path,
            mode,
            flags,
            origin,
        })))
    }

    pub(super) fn creat(&mut self) -> Option<ExitStep> {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        self.open(AT_FDCWD, self.args[0], flags, self.uint(1))
    }

    pub(super) fn openat2(&mut self) -> Option<ExitStep> {
        // struct open_how { u64 flags, mode, resolve; }
        let mut how = [0; 24];
        self.memory.read_exact(self.args[2], &mut how).ok()?;
        let word = |index: usize| {
            let bytes = how[index * 8..][..8].try_into();
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let (flags, mode, resolve) = (word(0), word(1), word(2));
        if resolve & RESOLVE_IN_ROOT != 0 {
            self.unsupported("the path resolves as if a descriptor were the root");
            return Some(ExitStep::Fetch(Report::Nothing));
        }
        self.open(self.int(0), self.args[1], flags as i32, mode as u32)
    }

    /// Without `OPEN_TREE_CLONE` it is an open with `O_PATH`.
    pub(super) fn open_tree(&mut self) -> Option<ExitStep> {
        let flags = self.uint(2);
        if flags & OPEN_TREE_CLONE != 0 {
            return self.fetch("mounts are not modelled");
        }
        let mut open_flags = libc::O_PATH | (flags as i32 & libc::O_CLOEXEC);
        if flags as i32 & libc::AT_SYMLINK_NOFOLLOW != 0 {
            open_flags |= libc::O_NOFOLLOW;
        }
        if flags as i32 & libc::AT_EMPTY_PATH != 0 {
            // A new description of the descriptor's file.
            return Some(ExitStep::Fetch(Report::Nothing));
        }
        self.open(self.int(0), self.args[1], open_flags, 0)
    }

    /// The description behind a path that names one of the process's own
    /// descriptors, as `/dev/stdin` and `/proc/self/fd/N` do.
    pub(super) fn own_descriptor_file(&mut self, path: &PathRef) -> Option<Rc<OpenFile>> {
        let fd = path.follow.then(|| paths::own_descriptor(&path.path))??;
        self.file(fd)
    }

    /// A descriptor of a rare kind: reported as not modelled, then described from `/proc`.
    pub(super) fn fetch(&mut self, reason: &'static str) -> Option<ExitStep> {
        Some(ExitStep::Fetch(Report::Unsupported(reason)))
    }

    pub(super) fn list(&mut self) -> Option<ExitStep> {
        let file = self.file(self.int(0))?;
        self.push(IoEvent::List { file });
        None
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use crate::process::nr;
    use crate::process::testing::{CWD, Case, TID};

    #[test]
    fn opens_name_an_absolute_path_and_make_a_descriptor() {
        let mut case = Case::new();
        let path = case.text("dir//./file");
        case.check(nr::open, &[path, 0], 3, &["open /base/dir/file read"]);
        assert!(case.about.is_empty());
        let file = case.model.file(TID, 3).unwrap();
        assert_eq!(file.path.as_deref(), Some("/base/dir/file".as_ref()));
        assert!(file.readable && !file.writable);
        assert_eq!(file.creator, Some(TID));
    }

    #[test]
    fn opened_to_read_equals_entry_and_exit_of_the_open() {
        for given in ["f", "./d//f", "../f", "/x/f", "//x/./f", "..f"] {
            for flags in [0, libc::O_CLOEXEC, libc::O_NOCTTY, libc::O_NONBLOCK] {
                let (mut shown, mut said) = (Case::new(), Case::new());
                let path = shown.text(given);
                shown.call(nr::open, &[path, flags as u64], 3);
                let mut path = b"what was there".to_vec();
                assert!(said.model.find(TID, given.as_bytes(), &mut path));
                let path = PathBuf::from(OsString::from_vec(path));
                let id = said.model.opened_to_read(TID, 3, path, flags);
                let file = |case: &Case| format!("{:?}", case.model.file(TID, 3).unwrap());
                assert_eq!(file(&said), file(&shown), "{given}");
                assert_eq!(said.model.file(TID, 3).unwrap().id, id);
                assert_eq!(said.descriptors(TID), shown.descriptors(TID));
            }
        }
        let case = Case::new();
        for given in ["", ".", "d/", "d/.", "/"] {
            assert!(
                !case.model.find(TID, given.as_bytes(), &mut Vec::new()),
                "{given}"
            );
        }
        assert!(!case.model.find(TID + 1, b"f", &mut Vec::new()));
    }

    #[test]
    fn a_failed_open_reports_its_error() {
        let mut case = Case::new();
        let path = case.text("/no");
        case.check(nr::openat, &[CWD, path, 0], -2, &["open /no fails 2"]);
        assert_eq!(case.descriptors(TID), "0 1 2");
    }

    #[test]
    fn opening_to_write_is_announced() {
        let mut case = Case::new();
        let path = case.text("out");
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let expected = "open /base/out write truncate create 644";
        case.check(
            nr::openat,
            &[CWD, path, flags as u64, 0o644],
            3,
            &[expected],
        );
        assert_eq!(case.about, ["/base/out"]);
        assert_eq!(case.descriptors(TID), "0 1 2 3*");
        case.check(
            nr::creat,
            &[path, 0o600],
            4,
            &["open /base/out write truncate create 600"],
        );
        assert_eq!(case.about, ["/base/out"]);
    }

    #[test]
    fn exclusive_creation_and_nofollow_do_not_follow() {
        let mut case = Case::new();
        let path = case.text("l");
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let expected = "open /base/l@ read write exclusive create 644";
        case.check(
            nr::openat,
            &[CWD, path, flags as u64, 0o644],
            3,
            &[expected],
        );
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        case.check(
            nr::openat,
            &[CWD, path, flags as u64],
            4,
            &["open /base/l@ path"],
        );
        let file = case.model.file(TID, 4).unwrap();
        assert!(file.path_only && !file.readable && !file.writable);
    }

    #[test]
    fn openat_starts_at_the_directory_descriptor() {
        let mut case = Case::new();
        case.open("/usr/lib", libc::O_DIRECTORY, 3);
        let (relative, absolute) = (case.text("../x"), case.text("/y"));
        case.check(
            nr::openat,
            &[3, relative, 0],
            4,
            &["open /usr/lib/../x read"],
        );
        case.check(nr::openat, &[3, absolute, 0], 5, &["open /y read"]);
        // A descriptor that does not exist: the call fails with EBADF.
        case.check(nr::openat, &[99, relative, 0], -9, &[]);
        let expected =
            "unsupported openat: a path relative to a descriptor whose own path is not known";
        case.check(nr::openat, &[1, relative, 0], -20, &[expected]);
    }

    #[test]
    fn an_unnamed_file_gets_its_path_when_it_is_linked() {
        let mut case = Case::new();
        let (directory, link) = (case.text("/tmp"), case.text("/proc/self/fd/3"));
        let to = case.text("named");
        let flags = libc::O_TMPFILE | libc::O_RDWR;
        let expected = "open /tmp read write directory tmpfile create 600";
        case.check(
            nr::openat,
            &[CWD, directory, flags as u64, 0o600],
            3,
            &[expected],
        );
        assert!(case.about.is_empty());
        assert_eq!(case.path_of(3), None);
        let follow = libc::AT_SYMLINK_FOLLOW as u64;
        case.check(
            nr::linkat,
            &[CWD, link, CWD, to, follow],
            0,
            &["link <Opened> -> /base/named@"],
        );
        assert_eq!(case.path_of(3), Some("/base/named".as_ref()));
    }

    #[test]
    fn openat2_reads_its_flags_from_memory() {
        let mut case = Case::new();
        let path = case.text("f");
        let how = case.words(&[libc::O_RDWR as u64, 0, 0]);
        case.check(
            nr::openat2,
            &[CWD, path, how, 24],
            3,
            &["open /base/f read write"],
        );
        let how = case.words(&[0, 0, 0x10]);
        let expected = "unsupported openat2: the path resolves as if a descriptor were the root";
        case.check(nr::openat2, &[CWD, path, how, 24], 4, &[expected]);
        assert_eq!(case.descriptors(TID), "0 1 2 3 4*");
    }

    #[test]
    fn unreadable_and_endless_paths_are_no_observation() {
        let mut case = Case::new();
        case.check(nr::openat, &[CWD, 0, 0], -14, &[]);
        case.check(nr::openat, &[CWD, 0x5000_0000, 0], -14, &[]);
        let long = case.text(&"x/".repeat(3000));
        case.check(nr::openat, &[CWD, long, 0], -36, &[]);
        let fits = format!("/{}", "x".repeat(4094));
        let path = case.text(&fits);
        case.check(
            nr::openat,
            &[CWD, path, 0],
            3,
            &[&format!("open {fits} read")],
        );
        let empty = case.text("");
        case.check(nr::openat, &[CWD, empty, 0], -2, &[]);
    }

    #[test]
    fn opening_ones_own_descriptor_opens_its_object_again() {
        let mut case = Case::new();
        let (pipe, log) = (case.text("/dev/fd/1"), case.text("/proc/self/fd/2"));
        let write = libc::O_WRONLY as u64;
        case.check(nr::open, &[pipe, write], 3, &["open /dev/fd/1 write"]);
        case.check(nr::open, &[log, write], 4, &["open /proc/self/fd/2 write"]);
        assert_eq!(case.about, ["/log"]);
        let file = |fd| case.model.file(TID, fd).unwrap();
        assert_eq!(file(3).kind, file(1).kind);
        assert_ne!(file(3).id, file(1).id);
        assert_eq!(file(4).path, file(2).path);
    }

    #[test]
    fn paths_behind_links_of_the_task_itself_are_resolved() {
        let mut case = Case::new();
        let directory = case.text("/dir");
        case.check(nr::open, &[directory, 0], 3, &["open /dir read"]);
        let own = format!("/proc/{TID}/cwd/x");
        for (given, path) in [
            ("/proc/self/cwd/x", "/base/x"),
            ("/proc/self/cwd/", "/base"),
            ("/proc/self/cwd", "/base"),
            ("/proc/thread-self/root", "/"),
            ("/proc/self/fd/3/x", "/dir/x"),
            ("/dev/fd/3/.", "/dir"),
            ("/proc/self/cwd/../x", "/base/../x"),
            ("/proc/self/fd/3/../proc/self/cwd", "/dir/../proc/self/cwd"),
            (&own, "/base/x"),
            // Those of others, and those that lead nowhere.
            ("/proc/77/cwd/x", "/proc/77/cwd/x"),
            ("/proc/self/fd/50/x", "/proc/self/fd/50/x"),
            ("/proc/self/maps", "/proc/self/maps"),
        ] {
            let address = case.text(given);
            case.check(nr::stat, &[address], 0, &[&format!("stat {path}")]);
        }
        let link = case.text("/proc/self/cwd");
        case.check(nr::lstat, &[link], 0, &["stat /proc/self/cwd@"]);
    }

    #[test]
    fn an_interrupted_open_is_no_event() {
        let mut case = Case::new();
        let path = case.text("fifo");
        case.check(nr::openat, &[CWD, path, 0], -512, &[]);
    }
}
