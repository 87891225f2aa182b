//! The machine and the system: names, mounts, modules, power, security,
//! measurement, randomness.

use libc::{EAGAIN, EBUSY, EINVAL, EMFILE, ENODEV, ENOSPC, ENOTBLK, EPERM, EROFS};

use super::prelude::*;

const CHANGES_KERNEL: &str = "it changes the running kernel";

pub(super) const CALLS: &[Spec] = &[
    sys!(63 uname(buf: Out(One(Utsname))) -> Zero).loads(&[Machine]).world(World::Machine),
    sys!(99 sysinfo(info: Out(One(Sysinfo))) -> Zero)
        .loads(&[Machine, Clock])
        .world(World::Machine),
    sys!(103 syslog(kind: Int, bufp: Address, len: Int) -> Count)
        .blocks()
        .loads(&[Machine])
        .stores(&[Machine])
        .fails(&[EPERM])
        .world(World::Refuse)
        .rule(Rule::Syslog),
    sys!(134 uselib() -> NoSys),
    sys!(139 sysfs(option: Int, arg1: Word, arg2: Word) -> Value)
        .loads(&[Machine])
        .world(World::Machine)
        .rule(Rule::SysFs),
    sys!(153 vhangup() -> Zero).stores(&[Groups])
        .fails(&[EPERM]),
    sys!(155 pivot_root(new_root: Path, put_old: Path) -> Zero)
        .loads(&[Name(0), Name(1), Mounts])
        .stores(&[Mounts, Root, Cwd])
        .fails(&[EBUSY, EINVAL, EPERM]),
    sys!(156 _sysctl() -> NoSys),
    sys!(162 sync() -> Zero).blocks().stores(&[FileSystems]),
    sys!(163 acct(filename: Path) -> Zero)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(165 mount(
        source: Text, target: Path, filesystemtype: Text, mountflags: Flags(flags::MOUNT),
        data: In(Bytes(Fixed(4096)))
    ) -> Zero)
        .blocks()
        .loads(&[Name(1), Cwd, Root])
        .stores(&[Mounts])
        .fails(&[EBUSY, EINVAL, EMFILE, ENODEV, ENOSPC, ENOTBLK, EPERM, EROFS]),
    sys!(166 umount2(target: Path, flags: Flags(flags::UMOUNT)) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Mounts])
        .fails(&[EAGAIN, EBUSY, EINVAL, EPERM]),
    sys!(167 swapon(path: Path, swapflags: UInt) -> Zero)
        .loads(&[Name(0), Node(0)])
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(168 swapoff(path: Path) -> Zero)
        .loads(&[Name(0), Node(0)])
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(169 reboot(magic: Word, magic2: Word, cmd: Word, arg: Text) -> Value)
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(170 sethostname(name: In(Bytes(Arg(1))), len: Int) -> Zero)
        .stores(&[Machine])
        .fails(&[EPERM]),
    sys!(171 setdomainname(name: In(Bytes(Arg(1))), len: Int) -> Zero)
        .stores(&[Machine])
        .fails(&[EPERM]),
    sys!(172 iopl(level: Int) -> Zero)
        .stores(&[Myself])
        .fails(&[EPERM])
        .unsupported("the program would reach hardware without a call"),
    sys!(173 ioperm(from: Word, num: Size, turn_on: Int) -> Zero)
        .stores(&[Myself])
        .fails(&[EPERM])
        .unsupported("the program would reach hardware without a call"),
    sys!(174 create_module() -> NoSys),
    sys!(175 init_module(
        module_image: In(Bytes(Arg(1))), len: Size, param_values: Text
    ) -> Zero)
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(176 delete_module(name: Text, flags: Flags(flags::OPEN)) -> Zero)
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(177 get_kernel_syms() -> NoSys),
    sys!(178 query_module() -> NoSys),
    sys!(179 quotactl(cmd: Word, special: Path, id: Int, addr: Address) -> Zero)
        .loads(&[FileSystems])
        .stores(&[FileSystems])
        .fails(&[EPERM])
        .unmodelled("the structure depends on the command and the file system"),
    sys!(180 nfsservctl() -> NoSys),
    sys!(181 getpmsg() -> NoSys),
    sys!(182 putpmsg() -> NoSys),
    sys!(183 afs_syscall() -> NoSys),
    sys!(184 tuxcall() -> NoSys),
    sys!(185 security() -> NoSys),
    sys!(212 lookup_dcookie() -> NoSys),
    sys!(236 vserver() -> NoSys),
    sys!(246 kexec_load(
        entry: Address, nr_segments: Size, segments: In(Many(KexecSegment, Arg(1))), flags: Word
    ) -> Zero)
        .stores(&[Machine])
        .fails(&[EPERM])
        .unmodelled("the segments are read as well")
        .unsupported(CHANGES_KERNEL),
    sys!(298 perf_event_open(
        attr: InOutWhen(When::TooBig, Sized(PerfAttr, Head(4))), pid: Pid, cpu: Int, group_fd: Fd,
        flags: UInt
    ) -> Fd)
        .loads(&[Process(1), Machine])
        .stores(&[FdTable])
        .fails(&[EPERM])
        .world(World::Refuse)
        .later(Later::Anytime)
        .unsupported("its counters and its ring differ from run to run"),
    sys!(306 syncfs(fd: Fd) -> Zero).blocks().loads(&[FdTable]).stores(&[FileSystems]),
    sys!(313 finit_module(fd: Fd, param_values: Text, flags: UInt) -> Zero)
        .loads(&[FdTable, Content(0)])
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(318 getrandom(buf: Out(Bytes(Returned(1))), buflen: Size, flags: Flags(flags::GRND)) -> Count)
        .blocks()
        .loads(&[Random])
        .fails(&[EAGAIN])
        .world(World::Random),
    sys!(320 kexec_file_load(
        kernel_fd: Fd, initrd_fd: Fd, cmdline_len: Size, cmdline: In(Bytes(Arg(2))), flags: Word
    ) -> Zero)
        .loads(&[FdTable, Content(0), Content(1)])
        .stores(&[Machine])
        .fails(&[EPERM])
        .unsupported(CHANGES_KERNEL),
    sys!(321 bpf(cmd: Int, attr: Address, size: UInt) -> Value)
        .loads(&[Machine])
        .stores(&[Machine, FdTable])
        .fails(&[EPERM])
        .world(World::Refuse)
        .later(Later::Anytime)
        .unmodelled("its commands have shapes of their own, and maps are shared with programs")
        .unsupported("programs in the kernel are outside of any recording"),
    sys!(335 uretprobe() -> Value)
        .special()
        .unmodelled("it takes its operands from the stack")
        .unsupported("only the kernel's own trampoline may call it"),
    sys!(336 uprobe() -> Value)
        .special()
        .unmodelled("it takes its operands from the stack")
        .unsupported("only the kernel's own trampoline may call it"),
    sys!(428 open_tree(dirfd: DirFd, pathname: Path, flags: Flags(flags::OPEN_TREE)) -> Fd)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Mounts])
        .stores(&[FdTable]),
    sys!(429 move_mount(
        from_dirfd: DirFd, from_pathname: Path, to_dirfd: DirFd, to_pathname: Path, flags: UInt
    ) -> Zero)
        .loads(&[FdTable, Name(1), Name(3), Cwd, Root])
        .stores(&[Mounts])
        .fails(&[EBUSY, EPERM]),
    sys!(430 fsopen(fsname: Text, flags: UInt) -> Fd).stores(&[FdTable])
        .fails(&[EPERM]),
    sys!(431 fsconfig(fd: Fd, cmd: UInt, key: Text, value: Address, aux: Int) -> Zero)
        .blocks()
        .loads(&[FdTable])
        .stores(&[Content(0)])
        .fails(&[EBUSY, EPERM])
        .rule(Rule::FsConfig),
    sys!(432 fsmount(fs_fd: Fd, flags: UInt, attr_flags: UInt) -> Fd)
        .loads(&[FdTable])
        .stores(&[FdTable])
        .fails(&[EBUSY, EPERM]),
    sys!(433 fspick(dirfd: DirFd, pathname: Path, flags: UInt) -> Fd)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[FdTable])
        .fails(&[EPERM]),
    sys!(442 mount_setattr(
        dirfd: DirFd, pathname: Path, flags: Flags(flags::AT),
        attr: In(Sized(MountAttr, Arg(4))), size: Size
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[Mounts])
        .fails(&[EBUSY, EPERM]),
    sys!(443 quotactl_fd(fd: Fd, cmd: Word, id: Int, addr: Address) -> Zero)
        .loads(&[FdTable, FileSystems])
        .stores(&[FileSystems])
        .fails(&[EPERM])
        .unmodelled("the structure depends on the command and the file system"),
    sys!(444 landlock_create_ruleset(
        attr: In(Bytes(Arg(1))), size: Size, flags: Flags(flags::PLAIN)
    ) -> Fd)
        .stores(&[FdTable]),
    sys!(445 landlock_add_rule(
        ruleset_fd: Fd, rule_type: UInt, rule_attr: In(Bytes(Fixed(16))),
        flags: Flags(flags::PLAIN)
    ) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)]),
    sys!(446 landlock_restrict_self(ruleset_fd: Fd, flags: Flags(flags::PLAIN)) -> Zero)
        .loads(&[FdTable])
        .stores(&[Myself])
        .fails(&[EPERM]),
    sys!(457 statmount(
        req: In(Sized(MntIdReq, Head(0))), buf: Out(Sized(Statmount, HeadWithin(2))),
        bufsize: Size, flags: Flags(flags::PLAIN)
    ) -> Zero)
        .loads(&[Mounts])
        .world(World::Machine),
    sys!(458 listmount(
        req: In(Sized(MntIdReq, Head(0))), mnt_ids: Out(Many(U64, Returned(2))),
        nr_mnt_ids: Size, flags: Flags(flags::PLAIN)
    ) -> Count)
        .loads(&[Mounts])
        .world(World::Machine),
    sys!(459 lsm_get_self_attr(
        attr: UInt, ctx: Out(Bytes(Pointed(2))), size: InOutWhen(When::Always, One(U32)),
        flags: UInt
    ) -> Count)
        .loads(&[Credentials])
        .world(World::Machine),
    sys!(460 lsm_set_self_attr(
        attr: UInt, ctx: In(Bytes(Arg(2))), size: UInt, flags: Flags(flags::PLAIN)
    ) -> Zero)
        .stores(&[Credentials])
        .fails(&[EPERM]),
    sys!(461 lsm_list_modules(
        ids: Out(Bytes(Pointed(1))), size: InOutWhen(When::Always, One(U32)),
        flags: Flags(flags::PLAIN)
    ) -> Count)
        .loads(&[Machine])
        .world(World::Machine),
    sys!(467 open_tree_attr(
        dirfd: DirFd, pathname: Path, flags: Flags(flags::OPEN_TREE),
        attr: In(Sized(MountAttr, Arg(4))), size: Size
    ) -> Fd)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Mounts])
        .stores(&[FdTable])
        .fails(&[EPERM]),
    sys!(470 listns(
        req: In(Sized(NsIdReq, Head(0))), ns_ids: Out(Many(U64, Returned(2))), nr_ns_ids: Size,
        flags: Flags(flags::PLAIN)
    ) -> Count)
        .loads(&[Namespaces])
        .world(World::Machine),
];
