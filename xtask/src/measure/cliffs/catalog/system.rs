//! Loops of calls about the machine.

use super::Arg::{Got, N, Room, Text, Words};
use super::{Loop, c, close, n, often, seldom};

const CWD: super::Arg = N(libc::AT_FDCWD as i64);

pub(super) const LOOPS: &[Loop] = &[
    often("uname", &[c("uname", &[Room(512)])]),
    often("sysinfo", &[c("sysinfo", &[Room(256)])]),
    often(
        "getrandom: 8 bytes",
        &[c("getrandom", &[Room(8), N(8), N(0)])],
    ),
    often("getcpu", &[through_getcpu()]),
    seldom(
        "getcpu: by syscall(2)",
        &[n("getcpu", &[Room(8), Room(8), N(0)])],
    ),
    seldom(
        "syslog: size of the buffer",
        &[n("syslog", &[N(10), N(0), N(0)])],
    ),
    seldom("sysfs: number of types", &[n("sysfs", &[N(3)])]),
    seldom(
        "perf_event_open: no attributes (E2BIG)",
        &[n(
            "perf_event_open",
            &[Words(&[0x1_0000_0000]), N(0), N(-1), N(-1), N(0)],
        )],
    ),
    seldom(
        "bpf: no command (EINVAL)",
        &[n("bpf", &[N(9999), N(0), N(0)])],
    ),
    seldom(
        "open_tree, close",
        &[n("open_tree", &[CWD, Text("."), N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "open_tree_attr, close",
        &[
            n("open_tree_attr", &[CWD, Text("."), N(0), N(0), N(0)]),
            close(&[Got(0)]),
        ],
    ),
    seldom(
        "landlock_create_ruleset: the version",
        &[n("landlock_create_ruleset", &[N(0), N(0), N(1)])],
    ),
    seldom(
        "landlock_add_rule: no descriptor (EBADF)",
        &[n("landlock_add_rule", &[N(-1), N(1), Room(16), N(0)])],
    ),
    seldom(
        "landlock_restrict_self: no descriptor (EBADF)",
        &[n("landlock_restrict_self", &[N(-1), N(0)])],
    ),
    seldom(
        "statmount: no request (EINVAL)",
        &[n("statmount", &[Room(32), Room(512), N(512), N(0)])],
    ),
    seldom(
        "listmount: no request (EINVAL)",
        &[n("listmount", &[Room(32), Room(64), N(8), N(0)])],
    ),
    seldom(
        "listns: no request (EINVAL)",
        &[n("listns", &[Room(64), Room(64), N(8), N(0)])],
    ),
    seldom(
        "lsm_get_self_attr: no attribute",
        &[n(
            "lsm_get_self_attr",
            &[N(0), Room(64), Words(&[64]), N(0)],
        )],
    ),
    seldom(
        "lsm_list_modules",
        &[n("lsm_list_modules", &[Room(256), Words(&[256]), N(0)])],
    ),
];

const fn through_getcpu() -> super::Step {
    super::through("sched_getcpu", "getcpu", &[])
}
