//! Inter-process communication: System V, POSIX message queues, futexes, keys.

use libc::{EAGAIN, EDQUOT, EEXIST, EIDRM, ENOMEM, ENOSPC, EPERM, ETIMEDOUT};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(29 shmget(key: Word, size: Size, shmflg: Flags(flags::IPC_CREATE)) -> Value)
        .loads(&[Ipc])
        .stores(&[Ipc])
        .fails(&[EEXIST, ENOMEM, ENOSPC])
        .world(World::Pid),
    sys!(30 shmat(shmid: Int, shmaddr: Address, shmflg: Flags(flags::SHMAT)) -> Address)
        .loads(&[Ipc, AddressSpace])
        .stores(&[AddressSpace, Ipc])
        .fails(&[EIDRM, ENOMEM])
        .world(World::Address)
        .special(),
    sys!(31 shmctl(shmid: Int, cmd: Flags(flags::IPC_CONTROL), buf: Address) -> Value)
        .loads(&[Ipc])
        .stores(&[Ipc])
        .fails(&[EIDRM, EPERM])
        .rule(Rule::ShmCtl),
    sys!(64 semget(key: Word, nsems: Int, semflg: Flags(flags::IPC_CREATE)) -> Value)
        .loads(&[Ipc])
        .stores(&[Ipc])
        .fails(&[EEXIST, ENOMEM, ENOSPC])
        .world(World::Pid),
    sys!(65 semop(semid: Int, sops: In(Many(Sembuf, Arg(2))), nsops: UInt) -> Zero)
        .blocks()
        .loads(&[Ipc])
        .stores(&[Ipc])
        .fails(&[EAGAIN, EIDRM])
        .world(World::Schedule),
    sys!(66 semctl(semid: Int, semnum: Int, cmd: Flags(flags::IPC_CONTROL), arg: Word) -> Value)
        .loads(&[Ipc])
        .stores(&[Ipc])
        .fails(&[EIDRM, EPERM])
        .rule(Rule::SemCtl),
    sys!(67 shmdt(shmaddr: Address) -> Zero)
        .loads(&[AddressSpace])
        .stores(&[AddressSpace, Ipc])
        .special(),
    sys!(68 msgget(key: Word, msgflg: Flags(flags::IPC_CREATE)) -> Value)
        .loads(&[Ipc])
        .stores(&[Ipc])
        .fails(&[EEXIST, ENOMEM, ENOSPC])
        .world(World::Pid),
    sys!(69 msgsnd(
        msqid: Int, msgp: Address, msgsz: Size, msgflg: Flags(flags::IPC_CREATE)
    ) -> Zero)
    .blocks()
    .loads(&[Ipc])
    .stores(&[Ipc])
    .fails(&[EAGAIN, EIDRM, ENOMEM])
    .world(World::Schedule)
    .rule(Rule::MessageQueue),
    sys!(70 msgrcv(
        msqid: Int, msgp: Address, msgsz: Size, msgtyp: Long, msgflg: Flags(flags::IPC_CREATE)
    ) -> Count)
    .blocks()
    .loads(&[Ipc])
    .stores(&[Ipc])
    .fails(&[EIDRM])
    .world(World::Schedule)
    .rule(Rule::MessageQueue),
    sys!(71 msgctl(msqid: Int, cmd: Flags(flags::IPC_CONTROL), buf: Address) -> Value)
        .loads(&[Ipc])
        .stores(&[Ipc])
        .fails(&[EIDRM, EPERM])
        .rule(Rule::MsgCtl),
    sys!(202 futex(
        uaddr: Address, futex_op: Flags(flags::FUTEX), val: UInt, timeout: Word, uaddr2: Address,
        val3: UInt
    ) -> Value)
    .blocks()
    .loads(&[Futex(0), Futex(4), Clock])
    .stores(&[Futex(0), Futex(4)])
    .world(World::Schedule)
    .rule(Rule::Futex)
    .special()
    .fails(&[EAGAIN, ETIMEDOUT])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(220 semtimedop(
        semid: Int, sops: In(Many(Sembuf, Arg(2))), nsops: UInt, timeout: In(One(Timespec))
    ) -> Zero)
    .blocks()
    .loads(&[Ipc, Clock])
    .stores(&[Ipc])
    .fails(&[EAGAIN, EIDRM])
    .world(World::Schedule),
    sys!(240 mq_open(
        name: Text, oflag: Flags(flags::OPEN), mode: Mode, attr: In(One(MqAttr))
    ) -> Fd)
    .loads(&[Ipc, Umask])
    .stores(&[FdTable, Ipc])
    .fails(&[EEXIST, ENOMEM, ENOSPC]),
    sys!(241 mq_unlink(name: Text) -> Zero)
        .loads(&[Ipc])
        .stores(&[Ipc]),
    sys!(242 mq_timedsend(
        mqdes: Fd, msg_ptr: In(Bytes(Arg(2))), msg_len: Size, msg_prio: UInt,
        abs_timeout: In(One(Timespec))
    ) -> Zero)
    .blocks()
    .loads(&[FdTable, Content(0), Clock])
    .stores(&[Content(0)])
    .fails(&[EAGAIN, ETIMEDOUT])
    .world(World::Schedule),
    sys!(243 mq_timedreceive(
        mqdes: Fd, msg_ptr: Out(Bytes(Returned(2))), msg_len: Size, msg_prio: Out(One(U32)),
        abs_timeout: In(One(Timespec))
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0), Clock])
    .stores(&[Content(0)])
    .fails(&[EAGAIN, ETIMEDOUT])
    .world(World::Schedule),
    sys!(244 mq_notify(mqdes: Fd, sevp: In(One(Sigevent))) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)]),
    sys!(245 mq_getsetattr(mqdes: Fd, newattr: In(One(MqAttr)), oldattr: Out(One(MqAttr))) -> Zero)
        .loads(&[FdTable, Content(0)])
        .stores(&[File(0)]),
    sys!(248 add_key(
        kind: Text, description: Text, payload: In(Bytes(Arg(3))), plen: Size, keyring: Int
    ) -> Value)
    .stores(&[Keys])
    .fails(&[EDQUOT, ENOMEM])
    .world(World::Pid),
    sys!(249 request_key(
        kind: Text, description: Text, callout_info: Text, dest_keyring: Int
    ) -> Value)
    .blocks()
    .loads(&[Keys])
    .stores(&[Keys])
    .fails(&[EDQUOT, ENOMEM])
    .world(World::Pid),
    sys!(250 keyctl(operation: Int, arg2: Word, arg3: Word, arg4: Word, arg5: Word) -> Value)
        .loads(&[Keys])
        .stores(&[Keys])
        .unmodelled("its thirty operations have thirty shapes"),
    sys!(449 futex_waitv(
        waiters: In(Many(FutexWaitv, Arg(1))), nr_futexes: UInt, flags: Flags(flags::PLAIN),
        timeout: In(One(Timespec)), clockid: Flags(flags::CLOCK)
    ) -> Value)
    .blocks()
    .loads(&[Futex(0), Clock])
    .fails(&[EAGAIN, ETIMEDOUT])
    .world(World::Schedule)
    .rule(Rule::FutexWaitV)
    .special(),
    sys!(454 futex_wake(
        uaddr: Address, mask: Word, nr: Int, flags: Flags(flags::FUTEX2)
    ) -> Count)
    .stores(&[Futex(0)])
    .world(World::Schedule)
    .special(),
    sys!(455 futex_wait(
        uaddr: In(One(U32)), val: Word, mask: Word, flags: Flags(flags::FUTEX2),
        timeout: In(One(Timespec)), clockid: Flags(flags::CLOCK)
    ) -> Zero)
    .blocks()
    .loads(&[Futex(0), Clock])
    .fails(&[EAGAIN, ETIMEDOUT])
    .world(World::Schedule)
    .special(),
    sys!(456 futex_requeue(
        waiters: In(Many(FutexWaitv, Fixed(2))), flags: Flags(flags::PLAIN), nr_wake: Int,
        nr_requeue: Int
    ) -> Count)
    .loads(&[Futex(0)])
    .stores(&[Futex(0)])
    .fails(&[EAGAIN])
    .world(World::Schedule)
    .rule(Rule::FutexWaitV)
    .special(),
];
