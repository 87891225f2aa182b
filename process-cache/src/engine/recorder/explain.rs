//! Whether the present state of files explains the error of a call.
//!
//! The error of a call is a fact only if what was noted about its files implies it. Another process
//! may have changed them between the call and the question, and a file system may have reasons of
//! its own.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Stat, StatVfsMountFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::mounts::copies;
use crate::engine::session::{Session, named_file};
use crate::model::path::FilePath;
use crate::world::executable::{self, Format};
use crate::world::locate::{Located, is_directory, is_link, is_regular};
use ptrace_async::event::{OpenMode, PathRef, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::syscall::Object;

/// A file that a call names.
#[derive(Debug)]
pub(super) struct Named {
    /// Its path as it was given, without a final slash.
    given: FilePath,
    /// Its canonical path.
    resource: FilePath,
    /// The result of stat or lstat.
    stat: Result<Stat, Errno>,
    /// Whether the path ends with a slash, which demands a directory.
    as_directory: bool,
}

impl Named {
    pub(super) fn new(path: &PathRef, located: &Located) -> Self {
        Self {
            given: located.given.clone(),
            resource: located.resource.clone(),
            stat: located.stat,
            as_directory: path.as_directory,
        }
    }

    /// Returns its canonical path.
    pub(super) fn resource(&self) -> &FilePath {
        &self.resource
    }

    fn fails(&self, error: Errno) -> bool {
        self.stat.is_err_and(|found| found == error)
    }

    fn is(&self, kind: fn(&Stat) -> bool) -> bool {
        self.stat.as_ref().is_ok_and(kind)
    }

    /// Whether it exists, where its path or its call asks for a directory, and is none.
    fn is_no_directory(&self) -> bool {
        self.stat.is_ok() && !self.is(is_directory)
    }

    fn directory(&self) -> &Path {
        self.resource.parent().unwrap_or(&self.resource)
    }

    /// Whether its directory is absent, so that no name can be made in it.
    fn has_no_directory(&self) -> bool {
        rustix::fs::stat(self.directory()).is_err()
    }

    /// Whether it belongs to somebody else, or is found by a link of somebody else, in a sticky
    /// directory: then the kernel has rules of its own (proc(5), `protected_regular` and the like).
    fn is_protected_by_sticky_directory(&self) -> bool {
        let user = rustix::process::geteuid().as_raw();
        let link = self.given.as_path();
        let is_foreign = |stat: &Stat| stat.st_uid != user;
        let is_sticky = |path: Option<&Path>| {
            let stat = rustix::fs::stat(path.unwrap_or(Path::new("/")));
            stat.is_ok_and(|stat| stat.st_mode & libc::S_ISVTX != 0)
        };
        self.stat.as_ref().is_ok_and(is_foreign) && is_sticky(Some(self.directory()))
            || rustix::fs::lstat(link).is_ok_and(|stat| is_link(&stat) && is_foreign(&stat))
                && is_sticky(link.parent())
    }

    fn denies(&self, right: Access) -> bool {
        self.stat.is_ok() && denies(&self.resource, right) == Some(Errno::ACCESS)
    }

    fn directory_denies(&self, right: Access) -> bool {
        denies(self.directory(), right) == Some(Errno::ACCESS)
    }

    /// Whether chattr(1) protects it, or its directory.
    fn is_protected(&self) -> bool {
        [self.resource.as_path(), self.directory()]
            .iter()
            .any(|path| {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let found = rustix::fs::statx(CWD, *path, flags, StatxFlags::empty());
                let protected = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
                found.is_ok_and(|found| found.stx_attributes.intersects(protected))
            })
    }

    /// Whether it, or its directory, belongs to another user.
    fn is_of_somebody_else(&self) -> bool {
        let user = rustix::process::geteuid().as_raw();
        let directory = rustix::fs::stat(self.directory());
        [self.stat, directory]
            .iter()
            .any(|stat| stat.as_ref().is_ok_and(|stat| stat.st_uid != user))
    }

    fn is_read_only(&self) -> bool {
        [self.resource.as_path(), self.directory()]
            .iter()
            .any(|path| {
                let found = rustix::fs::statvfs(*path);
                found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
            })
    }

    /// Whether it has entries that make removing it fail.
    fn is_filled(&self) -> bool {
        let entries = std::fs::read_dir(&self.resource);
        entries.is_ok_and(|mut entries| entries.next().is_some())
    }
}

fn denies(path: &Path, right: Access) -> Option<Errno> {
    rustix::fs::accessat(CWD, path, right, AtFlags::EACCESS).err()
}

/// Whether a call of this name makes its last name, and fails with `EEXIST` because it exists.
pub(super) fn makes_name(call: &str) -> bool {
    ["mk", "link", "symlink"]
        .iter()
        .any(|start| call.starts_with(start))
}

impl Session {
    /// Whether the files of a call that changes names or metadata explain its error. Mounts are
    /// compared elsewhere.
    pub(super) fn explains(call: &str, error: i32, named: &[Named]) -> bool {
        let Some((last, before)) = named.split_last() else {
            return true;
        };
        let error = Errno::from_raw_os_error(error);
        let renames = call.starts_with("rename");
        let needed = if makes_name(call) || renames {
            before
        } else {
            named
        };
        match error {
            // Names that the arguments alone decide about.
            Errno::INVAL | Errno::XDEV => true,
            Errno::NOENT => needed.iter().any(|it| it.fails(error)) || last.has_no_directory(),
            Errno::LOOP => named.iter().any(|it| it.fails(error)),
            Errno::NOTDIR => {
                let moves_directory = renames && before.iter().any(|it| it.is(is_directory));
                let wants = moves_directory || call == "rmdir";
                named
                    .iter()
                    .any(|it| it.fails(error) || (wants || it.as_directory) && it.is_no_directory())
            }
            Errno::EXIST if makes_name(call) => last.stat.is_ok(),
            // It may not replace anything, which its flags say.
            Errno::EXIST if call == "renameat2" => last.stat.is_ok(),
            Errno::EXIST | Errno::NOTEMPTY => last.is_filled(),
            Errno::ISDIR if call == "rmdir" => false,
            Errno::ISDIR => named.iter().any(|it| it.is(is_directory)),
            Errno::ACCESS => named.iter().any(|it| {
                it.fails(error)
                    || it.denies(Access::WRITE_OK)
                    || it.directory_denies(Access::WRITE_OK | Access::EXEC_OK)
                    || it.is_protected_by_sticky_directory()
            }),
            Errno::PERM => {
                let is_special = |it: &Named| {
                    call.contains("xattr") && !it.is(is_regular) && !it.is(is_directory)
                        || call.starts_with("link") && it.is(is_directory)
                        || it.is_protected()
                };
                // Rights decide which owners may be set.
                let of_rights = ["chown", "fchown", "lchown", "fchownat"].contains(&call);
                let of_others = || of_rights || named.iter().any(Named::is_of_somebody_else);
                named.iter().any(is_special) || !is_privileged() && of_others()
            }
            Errno::ROFS => named.iter().any(Named::is_read_only),
            _ => false,
        }
    }

    /// Whether the file that could not be opened explains the error.
    pub(super) fn explains_open(mode: &OpenMode, error: i32, file: &Named, follow: bool) -> bool {
        let error = Errno::from_raw_os_error(error);
        let creates = mode.create.is_some();
        let right = match (mode.write || mode.truncate, mode.read) {
            (true, true) => Access::WRITE_OK | Access::READ_OK,
            (true, false) => Access::WRITE_OK,
            (false, _) => Access::READ_OK,
        };
        match error {
            Errno::NOENT if creates => file.has_no_directory(),
            Errno::NOENT => file.fails(error),
            Errno::NOTDIR => {
                file.fails(error) || (mode.directory || file.as_directory) && file.is_no_directory()
            }
            Errno::ACCESS => {
                file.fails(error)
                    || file.denies(right)
                    || creates && file.directory_denies(Access::WRITE_OK | Access::EXEC_OK)
                    || file.is_protected_by_sticky_directory()
                    || file.is(|stat| !is_regular(stat) && !is_directory(stat))
            }
            Errno::PERM => file.is_protected() || !is_privileged() && file.is_of_somebody_else(),
            Errno::ROFS => file.is_read_only(),
            Errno::ISDIR => (mode.write || creates) && (file.is(is_directory) || file.as_directory),
            Errno::EXIST => mode.exclusive && file.stat.is_ok(),
            Errno::LOOP => file.fails(error) || !follow && file.is(is_link),
            Errno::NXIO | Errno::NODEV => file.is(|stat| !is_regular(stat) && !is_directory(stat)),
            // A directory cannot be read with O_DIRECT. Whether a file can depends on its file system.
            Errno::INVAL => mode.directory && creates || file.is(is_directory),
            Errno::FBIG | Errno::OVERFLOW => false,
            _ => true,
        }
    }

    /// Whether the program that could not be executed explains the error.
    pub(super) fn explains_execution(error: i32, file: &Named) -> bool {
        let error = Errno::from_raw_os_error(error);
        if file.stat.is_err() {
            return file.fails(error);
        }
        // An interpreter may be absent, or not executable either.
        let interpreter = match executable::format(&file.resource) {
            Ok(Format::Script(interpreter) | Format::Elf(Some(interpreter))) => Some(interpreter),
            Ok(Format::Elf(None)) => None,
            Ok(Format::Foreign | Format::Other) | Err(_) => return error != Errno::NOENT,
        };
        let is_elf = |path: &FilePath| matches!(executable::format(path), Ok(Format::Elf(_)));
        let lacks = |path: &FilePath| {
            denies(path, Access::EXEC_OK).is_some()
                || rustix::fs::stat(path.as_path()).is_ok_and(|stat| !is_regular(&stat))
        };
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {
                interpreter.is_some_and(|it| rustix::fs::stat(it.as_path()).is_err())
            }
            Errno::ACCESS => {
                lacks(&file.resource)
                    || interpreter.as_ref().is_some_and(lacks)
                    || rustix::fs::statvfs(file.resource.as_path())
                        .is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOEXEC))
            }
            Errno::PERM => !is_privileged() && file.is_of_somebody_else(),
            Errno::NOEXEC | Errno::LIBBAD => interpreter.is_some_and(|it| !is_elf(&it)),
            Errno::ISDIR => false,
            _ => true,
        }
    }
}

/// Whether pcache may do everything with files, so that no missing right explains an error.
fn is_privileged() -> bool {
    static ANSWER: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ANSWER.get_or_init(|| {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = effective.and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
        // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID.
        let is_able = capabilities.is_some_and(|set| set & 0x1f == 0x1f);
        is_whole && is_able && rustix::process::geteuid().is_root()
    })
}

/// Whether a call changes the machine, the mounts or objects of all processes. No facts about them
/// are asked, and their state shows in its error.
fn is_about_machine(call: &Invocation) -> bool {
    let of_mounts = matches!(
        call.nr.cast_signed(),
        libc::SYS_quotactl
            | libc::SYS_quotactl_fd
            | libc::SYS_fsopen
            | libc::SYS_fspick
            | libc::SYS_fsmount
            | libc::SYS_fsconfig
    );
    let spec = call.syscall().spec();
    of_mounts
        || spec.is_some_and(|spec| {
            let mut stores = spec.stores.iter();
            stores.any(|object| {
                matches!(
                    object,
                    Object::Mounts | Object::Machine | Object::Root | Object::Ipc
                )
            })
        })
}

impl Session {
    /// Whether an error follows from the arguments of a call, the rights of its process, or the
    /// file behind its descriptor. Errors of paths are explained elsewhere.
    pub(super) fn is_due(&self, tid: Tid, call: &Invocation, error: i32) -> bool {
        let of_arguments = [libc::EFAULT, libc::ENOSYS, libc::EBADF, libc::EPERM];
        if is_about_machine(call) && !of_arguments.contains(&error) {
            return false;
        }
        let Some(file) = self.model.file(tid, call.args[0] as i32) else {
            return true;
        };
        let stat = file.path.as_deref().map(rustix::fs::stat);
        let is = |kind: fn(&Stat) -> bool| matches!(&stat, Some(Ok(stat)) if kind(stat));
        let is_plain = named_file(file).is_some() && is(is_regular);
        match call.nr.cast_signed() {
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_preadv2 => error != libc::EISDIR || is(is_directory),
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_sendfile
            | libc::SYS_copy_file_range
            | libc::SYS_splice => !is_plain || !matches!(error, libc::EPERM | libc::EISDIR),
            libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => {
                !is_plain || error != libc::EROFS
            }
            // Others concern owners, seals and leases.
            libc::SYS_fcntl => {
                let copies = [
                    libc::F_DUPFD,
                    libc::F_DUPFD_CLOEXEC,
                    libc::F_SETLK,
                    libc::F_SETLKW,
                ];
                error != libc::EPERM || !copies.contains(&(call.args[1] as i32))
            }
            libc::SYS_ioctl => error != libc::EPERM || !copies(call),
            _ => true,
        }
    }
}
