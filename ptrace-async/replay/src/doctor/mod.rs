//! Checks of what this machine allows for recording and replaying.
//!
//! Each check performs the operation itself where that does no harm; it does not look at
//! versions or configuration. The last check records and replays a program.

mod probe;

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use serde::Serialize;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub name: &'static str,
    /// The verdict.
    pub state: Status,
    /// The observation.
    pub found: String,
    /// The consequence for recording and replaying, and the remedy.
    pub meaning: &'static str,
}

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing to do.
    Fine,
    /// A restriction to know about.
    Note,
    /// Needed and missing.
    Missing,
}

/// A check with a meaning for each outcome.
struct Thing {
    name: &'static str,
    fine: &'static str,
    otherwise: &'static str,
    is_needed: bool,
}

impl Thing {
    fn judge(&self, result: io::Result<()>) -> Finding {
        match result {
            Ok(()) => self.finding(Status::Fine, "yes".to_owned(), self.fine),
            Err(error) => {
                let state = if self.is_needed {
                    Status::Missing
                } else {
                    Status::Note
                };
                self.finding(state, format!("no: {error}"), self.otherwise)
            }
        }
    }

    fn finding(&self, state: Status, found: String, meaning: &'static str) -> Finding {
        Finding {
            name: self.name,
            state,
            found,
            meaning,
        }
    }
}

/// Runs all checks. Takes some milliseconds, and starts processes.
pub fn examine() -> Vec<Finding> {
    let mut findings = vec![kernel()];
    findings.extend(tracing());
    findings.extend(interception());
    findings.extend(processor());
    findings.extend(memory());
    findings.push(vsyscall());
    findings.push(core_pattern());
    findings.push(privileges());
    findings.push(trial());
    findings
}

/// Whether programs can be recorded and replayed here.
pub fn is_able(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.state != Status::Missing)
}

fn kernel() -> Finding {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let version = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    };
    let is_new = version >= (5, 3);
    Finding {
        name: "kernel",
        state: if is_new {
            Status::Fine
        } else {
            Status::Missing
        },
        found: release.trim().to_owned(),
        meaning: "Linux 5.3 or later is needed: it reports at which call a program has stopped",
    }
}

fn tracing() -> Vec<Finding> {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.map_or_else(|_| "none".to_owned(), |scope| scope.trim().to_owned());
    let (seize, breakpoint) = match probe::tracing() {
        Ok(tracing) => (tracing.seize, tracing.breakpoint),
        Err(error) => (
            Err(error),
            Err(io::Error::other("no child process could be started")),
        ),
    };
    vec![
        Thing {
            name: "ptrace",
            fine: "programs can be stopped at their system calls",
            otherwise: "nothing can be recorded: allow ptrace in the container (--cap-add=SYS_PTRACE, or \
                        another seccomp profile), and set kernel.yama.ptrace_scope below 2 (below 3 \
                        for root)",
            is_needed: true,
        }
        .judge(seize),
        Finding {
            name: "yama",
            state: Status::Fine,
            found: format!("ptrace_scope {scope}"),
            meaning: "reprise traces only its own children, which 0 and 1 allow to every user and 2 to root",
        },
        Thing {
            name: "hardware breakpoints",
            fine: "used only for execution points in code that a program generates",
            otherwise: "needed only for execution points in code that a program generates: a replay cannot \
                        find those here",
            is_needed: false,
        }
        .judge(breakpoint),
    ]
}

fn interception() -> Vec<Finding> {
    vec![
        Thing {
            name: "seccomp",
            fine: "a filter stops system calls for the recorder, except those that programs log themselves",
            otherwise: "nothing can be recorded: the kernel has no seccomp filters, or a container forbids them",
            is_needed: true,
        }
        .judge(probe::seccomp_trace()),
        Thing {
            name: "process_vm_readv",
            fine: "the memory of programs is read in one call",
            otherwise: "the memory of programs cannot be read: allow process_vm_readv in the container",
            is_needed: true,
        }
        .judge(probe::read_memory()),
        Thing {
            name: "kcmp",
            fine: "output of programs is recognized by the descriptor that it goes to",
            otherwise: "output of programs is recognized by the file that it goes to: two pipes are told \
                        apart, two descriptors of one terminal are not",
            is_needed: false,
        }
        .judge(probe::compare_descriptors()),
        Thing {
            name: "programs in memory",
            fine: "a replay can execute its helper program",
            otherwise: "nothing can be replayed: set the sysctl vm.memfd_noexec below 2",
            is_needed: true,
        }
        .judge(crate::platform::os::executable_memory(c"reprise doctor").map(drop)),
    ]
}

fn processor() -> Vec<Finding> {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |name: &str| {
        let line = flags.lines().find(|line| line.starts_with("flags"));
        line.is_some_and(|line| line.split_whitespace().any(|flag| flag == name))
    };
    let random = has("rdrand") || has("rdseed");
    vec![
        Thing {
            name: "time stamp counter",
            fine: "its reads are trapped and recorded",
            otherwise: "its reads are not trapped: programs that use it diverge in a replay",
            is_needed: true,
        }
        .judge(probe::time_stamp_trap()),
        Thing {
            name: "cpuid faulting",
            fine: "not used: a trace lists the processor's features, and a replay requires the same",
            otherwise: "not needed: a trace lists the processor's features, and a replay requires the same",
            is_needed: false,
        }
        .judge(probe::cpuid_trap()),
        Finding {
            name: "rdrand, rdseed",
            state: if random { Status::Note } else { Status::Fine },
            found: if random { "yes" } else { "no" }.to_owned(),
            meaning: "replaced and recorded in the code of files; in code that a program generates they \
                      cannot be trapped, and a replay that depends on their results diverges",
        },
    ]
}

fn memory() -> Vec<Finding> {
    const UNUSED: &str = "not used: memory is compared as it is";
    vec![
        Thing {
            name: "userfaultfd, asynchronous",
            fine: UNUSED,
            otherwise: UNUSED,
            is_needed: false,
        }
        .judge(probe::write_protection()),
        Thing {
            name: "PAGEMAP_SCAN",
            fine: "an execution point between two calls is identified by the content of memory, too",
            otherwise: "written memory is searched page by page at execution points, which takes longer",
            is_needed: false,
        }
        .judge(probe::page_scan()),
    ]
}

fn vsyscall() -> Finding {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_there = maps.contains("[vsyscall]");
    Finding {
        name: "vdso and vsyscall",
        state: Status::Fine,
        found: if is_there {
            "with a vsyscall page"
        } else {
            "without a vsyscall page"
        }
        .to_owned(),
        meaning: "the vdso is hidden from recorded programs, which make system calls instead; calls of \
                  the vsyscall page stop like others",
    }
}

fn core_pattern() -> Finding {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    Finding {
        name: "core pattern",
        state: Status::Fine,
        found: pattern.trim().to_owned(),
        meaning: "a recorded program that crashes dumps core as usual; a replay dumps none",
    }
}

fn privileges() -> Finding {
    let is_root = rustix::process::geteuid().is_root();
    Finding {
        name: "set-uid programs",
        state: if is_root { Status::Fine } else { Status::Note },
        found: if is_root {
            "as root"
        } else {
            "as an ordinary user"
        }
        .to_owned(),
        meaning: "when an ordinary user records, programs like sudo and ping run without their extra \
                  privileges; as root they keep them",
    }
}

/// Records a small program and replays it.
fn trial() -> Finding {
    let thing = Thing {
        name: "trial",
        fine: "a program was recorded and replayed",
        otherwise: "a program could not be recorded and replayed: the line above has the error",
        is_needed: true,
    };
    let attempt = || -> io::Result<()> {
        let own = std::env::current_exe()?;
        let mut home = std::env::temp_dir();
        home.push(format!("reprise-doctor-{}", std::process::id()));
        fs::create_dir(&home)?;
        let trace = home.join("trace");
        let run = |words: &[&str]| -> io::Result<String> {
            let output = Command::new(&own)
                .args(words)
                .env("REPRISE_DIR", &home)
                .stdin(Stdio::null())
                .output()?;
            if output.status.code() == Some(7) {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            let message = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(message.trim().to_owned()))
        };
        let path = trace.to_string_lossy();
        let script = ["--", "/bin/sh", "-c", "echo $$ & wait; exit 7"];
        let both = run(&[&["record", "--quiet", "--output", &path], &script[..]].concat())
            .and_then(|recorded| Ok((recorded, run(&["replay", "--quiet", &path])?)));
        fs::remove_dir_all(&home)?;
        let (recorded, replayed) = both?;
        if recorded != replayed {
            return Err(io::Error::other("the replay printed something else"));
        }
        Ok(())
    };
    thing.judge(attempt())
}
