//! Properties that all units of a run share: the machine and the user.

use ptrace_async::process::read_proc;

use crate::model::fact::Digest;

/// Digests properties that programs can use without a system call or a file: the CPU's features
/// (cpuid cannot be observed, and `-march=native` uses it), the personality, and the mappings of
/// user and group ids.
///
/// The names of the host and the kernel and the control group are facts of programs that query
/// them ([`NAMES`](crate::platform::proc_files::NAMES),
/// [`GROUP`](crate::platform::proc_files::GROUP)), since they differ on every host.
pub fn digest() -> Digest {
    let mut hasher = blake3::Hasher::new();
    let mut text = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    text(&read_proc("/proc/self/personality").unwrap_or_default());
    let users = read_proc("/proc/self/uid_map").unwrap_or_default();
    let groups = read_proc("/proc/self/gid_map").unwrap_or_default();
    text(&users);
    if groups != users {
        text(&groups);
    }
    for leaf in [0, 1, 7, 0x8000_0001, 0x8000_0002, 0x8000_0003, 0x8000_0004] {
        let mut found = std::arch::x86_64::__cpuid_count(leaf, 0);
        if leaf == 1 {
            // The number of the current CPU core.
            found.ebx &= 0x00ff_ffff;
        }
        for word in [found.eax, found.ebx, found.ecx, found.edx] {
            text(&word.to_le_bytes());
        }
    }
    Digest(*hasher.finalize().as_bytes())
}
