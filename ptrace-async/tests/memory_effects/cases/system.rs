//! The machine, security modules, mounts as far as they are only looked at.

use super::{CWD, Case, args, case, directory, sys};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("uname", |a| args([a.out(400)])),
        case("sysinfo", |a| args([a.out(112)])),
        case("getrandom", |a| args([a.out(64), 33, 0])),
        case("getrandom", |a| args([a.out(64), 33, 0xffff]))
            .note("bad")
            .fails(libc::EINVAL),
        case("seccomp", |a| args([2, 0, a.ints(&[0x7fff_0000])])).note("action"),
        case("seccomp", |a| args([3, 0, a.out(8)])).note("sizes"),
        case("fsopen", |a| args([a.text("tmpfs"), 0])),
        case("fsconfig", |a| {
            let context = sys("fsopen", [a.text("tmpfs"), 0]);
            args([context, 1, a.text("size"), a.text("4096"), 0])
        })
        .anything(),
        case("open_tree_attr", |a| {
            args([CWD, a.text("."), 0, a.bytes(&[0; 32]), 32])
        })
        .anything(),
        case("landlock_create_ruleset", |a| args([a.words(&[1]), 8, 0])),
        case("landlock_add_rule", |a| {
            let ruleset = sys("landlock_create_ruleset", [a.words(&[1]), 8, 0]);
            args([ruleset, 1, a.words(&[1, directory()]), 0])
        })
        .anything(),
        case("landlock_restrict_self", |_| args([9999, 0])).anything(),
        case("statmount", |a| {
            let mount = mount_id(a);
            let request = a.words(&[24, mount, 0x2]);
            args([request, a.out(1024), 1024, 0])
        })
        .anything(),
        case("listmount", |a| {
            args([a.words(&[24, u64::MAX, 0]), a.out(1024), 128, 0])
        })
        .anything(),
        case("listns", |a| {
            args([a.words(&[32, 0, 0, 0]), a.out(1024), 128, 0])
        })
        .anything(),
        case("lsm_get_self_attr", |a| {
            args([100, a.out(256), a.ints(&[256]), 0])
        })
        .anything(),
        case("lsm_get_self_attr", |a| {
            args([100, a.out(256), a.ints(&[1]), 0])
        })
        .note("short")
        .anything(),
        case("lsm_list_modules", |a| {
            args([a.out(256), a.ints(&[256]), 0])
        }),
        case("lsm_list_modules", |a| args([a.out(256), a.ints(&[1]), 0]))
            .note("short")
            .fails(libc::E2BIG),
    ]
}

/// The unique id of the root's mount.
fn mount_id(arena: &mut super::Arena) -> u64 {
    let root = arena.text("/");
    let buffer = arena.out(256);
    sys("statx", [CWD, root, 0, 0x4000, buffer]);
    arena.read_word(buffer + 0x90)
}
