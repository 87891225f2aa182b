//! The reason why a run does not end: the calls that its tasks wait in.

use std::fs;

/// A process of those that a run started.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) pid: i32,
    parent: i32,
    group: i32,
    state: String,
}

impl Member {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, after) = stat.rsplit_once(')')?;
        let mut fields = after.split_whitespace();
        Some(Self {
            pid,
            state: fields.next()?.to_owned(),
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
        })
    }

    /// Its id, state, command, and the kernel function and system call that it waits in.
    pub(crate) fn describe(&self) -> String {
        let Self { pid, state, .. } = self;
        let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let command = read("cmdline").replace('\0', " ");
        let (wchan, syscall) = (read("wchan"), read("syscall"));
        format!("{pid} {state} {command}: {wchan} {}", syscall.trim())
    }
}

/// The processes of a group, and all that they started, which may have groups of their own
/// (ninja's commands have).
pub(crate) fn family(leader: i32) -> Vec<Member> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut others: Vec<Member> = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(Member::read)
        .collect();
    let mut found: Vec<Member> = others
        .extract_if(.., |other| other.group == leader)
        .collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|member| member.pid) {
        found.extend(others.extract_if(.., |other| other.parent == parent));
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal};

    use super::*;

    #[test]
    fn a_leader_belongs_to_its_group() {
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let leader = i32::try_from(cat.id()).unwrap();
        assert!(family(leader).iter().any(|member| member.pid == leader));
        drop(cat.stdin.take());
        cat.wait().unwrap();
    }

    #[test]
    fn who_has_a_group_of_its_own_belongs_to_who_started_it() {
        let mut shell = Command::new("sh")
            .args(["-c", "setsid sh -c 'echo; exec sleep 600' & wait"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        // It runs in its own group when it has said something.
        let said = shell.stdout.take().unwrap().read(&mut [0]).unwrap();
        assert_eq!(said, 1);
        let leader = i32::try_from(shell.id()).unwrap();
        let members = family(leader);
        assert!(members.iter().any(|member| member.group != leader));
        for member in &members {
            let pid = Pid::from_raw(member.pid).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
    }
}
