//! Queries about and changes to the machine and other processes: clocks, random bytes, sockets,
//! process state and signals.

use ptrace_async::event::{FileKind, Identity, OpenFile};
use ptrace_async::invocation::Invocation;

use crate::engine::session::Session;
use crate::key::Ids;
use crate::model::fact::Query;
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::platform::proc_files::NAMES;
use crate::policy::is_hash_seed;

/// The answer of uname(2), as bytes.
fn host_names() -> Vec<u8> {
    let names = rustix::system::uname();
    let parts = [
        names.sysname(),
        names.nodename(),
        names.release(),
        names.version(),
        names.machine(),
        names.domainname(),
    ];
    parts.map(std::ffi::CStr::to_bytes_with_nul).concat()
}

impl Session {
    /// Records a clock read.
    pub(super) fn read_clock(&mut self, unit: UnitId, clock: i32) {
        let policy = self.unit(unit).policy;
        let waiting = policy.running_clock
            && matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE);
        self.unit(unit).clock_reads += u32::from(!waiting);
        let starting = self.unit(unit).clock_reads <= policy.clock_reads_at_start;
        if !policy.clock && !waiting && !starting && !planted(Defect::ClockDoubt) {
            let which = match clock {
                libc::CLOCK_MONOTONIC
                | libc::CLOCK_MONOTONIC_RAW
                | libc::CLOCK_MONOTONIC_COARSE
                | libc::CLOCK_BOOTTIME => "the monotonic clock",
                _ => "the time of day",
            };
            self.mark_uncacheable(unit, format!("reads {which}"), true);
        }
    }

    /// Records a request for random bytes.
    pub(super) fn asked_random(&mut self, unit: UnitId, length: u64, flags: u32) {
        let earlier = self.unit(unit).random_requests;
        self.unit(unit).random_requests += 1;
        if !is_hash_seed(length, flags, earlier) && !self.unit(unit).policy.random {
            self.mark_uncacheable(unit, "asks for random bytes", true);
        }
    }

    /// Records a query for a property of the machine or of the process.
    pub(super) fn asked_identity(&mut self, unit: UnitId, what: Identity) {
        match what {
            Identity::Uname => {
                let names = Some(host_names());
                if self.unit(unit).host_names == names {
                    return;
                }
                self.unit(unit).host_names = names;
                for file in NAMES.map(FilePath::from) {
                    self.ask(unit, Query::Content(file.clone()), file);
                }
            }
            // The affinity is part of the weak key.
            Identity::Affinity => {}
            // Programs use this call for the size of memory; the same answer contains uptime and
            // load.
            Identity::Sysinfo => {}
            Identity::Cpu | Identity::Usage | Identity::Scheduling => {
                if !self.unit(unit).policy.usage {
                    self.mark_uncacheable(
                        unit,
                        "asks for its CPU number, its CPU time or its scheduling",
                        true,
                    );
                }
            }
            Identity::OtherProcess => {
                self.mark_uncacheable(unit, "asks about another process", true)
            }
        }
    }

    /// Records a socket call.
    pub(super) fn used_network(&mut self, unit: UnitId, what: &str, file: Option<&OpenFile>) {
        // A descriptor that is no socket fails, and its kind is known.
        let asks = matches!(what, "getpeername" | "getsockname" | "getsockopt");
        if asks && file.is_some_and(|f| !matches!(f.kind, FileKind::Socket(_))) {
            return;
        }
        // Creating a local socket reaches no other process yet.
        let local = file
            .is_some_and(|f| matches!(f.kind, FileKind::Socket(libc::AF_UNIX | libc::AF_NETLINK)));
        if let (true, Some(file)) = (what == "socket", file) {
            self.descriptions.set_owner(file.id, unit);
            if local {
                return;
            }
        }
        // Bytes received through an own socket that was neither bound nor connected come from the
        // other end of its pair.
        let receives = matches!(what, "recvfrom" | "recvmsg" | "shutdown");
        if receives && local && file.is_some_and(|f| self.is_own(unit, f)) {
            return;
        }
        self.mark_uncacheable(unit, format!("uses the network ({what})"), true);
    }

    /// Whether a call leaves all credentials unchanged. Shells make such calls to drop privileges
    /// that they may not have.
    pub fn keeps_ids(&self, unit: UnitId, call: &Invocation) -> bool {
        self.one_namespace && self.units[unit.0 as usize].ids.keep(call)
    }

    pub(super) fn state_changed(&mut self, unit: UnitId, what: &'static str) {
        // State of the process itself ends with it; keys of children contain the inherited part.
        const OWN: [&str; 8] = [
            // Compared when the unit is finalized.
            "status flags of an inherited description",
            "session",
            "process group",
            "scheduling policy",
            "priority",
            "input and output priority",
            "processor affinity",
            "parent death signal",
        ];
        match what {
            "credentials" => {
                self.unit(unit).ids = Ids::default();
                self.changes_surroundings(self.call.task(), false);
            }
            // `/proc` shows the ids of other processes relative to the own namespace.
            "namespaces" => {
                self.one_namespace = false;
                self.changes_surroundings(self.call.task(), false);
            }
            // Paths lead elsewhere, for pcache too if the mounts are its own.
            "mounts" => {
                self.locator.forget();
                self.locator.forget_contents();
                self.changes_surroundings(self.call.task(), false);
            }
            "capabilities" => self.changes_surroundings(self.call.task(), false),
            "landlock restrictions" | "seccomp filter" | "security attributes" => {
                self.changes_surroundings(self.call.task(), true);
            }
            // The personality is inherited, and keys contain that of the machine.
            "personality" => self.one_personality = false,
            _ => {}
        }
        if !OWN.contains(&what) {
            self.mark_uncacheable(unit, format!("changes {what}"), true);
        }
    }

    pub(super) fn signalled(&mut self, unit: UnitId, target: i32) {
        let inside = target > 0
            && self
                .tasks
                .get(target)
                .map(|task| task.unit)
                .is_some_and(|other| self.is_within(other, unit));
        if inside {
            return;
        }
        // The signal is internal to an ancestor that contains both units.
        let other = (target > 0)
            .then(|| self.tasks.get(target).map(|task| task.unit))
            .flatten();
        let mut at = Some(unit);
        while let Some(id) = at {
            if other.is_some_and(|other| self.is_within(other, id)) {
                break;
            }
            self.unit(id)
                .mark_uncacheable("sends a signal to another process", false);
            at = self.unit(id).parent;
        }
    }
}
