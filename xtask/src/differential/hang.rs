//! What a run that does not end is waiting for.

use std::fs;

/// One line for each process of a group: its id, state, command, and the
/// kernel function and system call that it waits in.
pub(crate) fn group(leader: i32) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| member(pid, leader))
        .collect()
}

fn member(pid: i32, leader: i32) -> Option<String> {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let stat = read("stat");
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let (state, _parent, group) = (fields.next()?, fields.next()?, fields.next()?);
    (group.parse() == Ok(leader)).then(|| {
        let command = read("cmdline").replace('\0', " ");
        let (wchan, syscall) = (read("wchan"), read("syscall"));
        format!("{pid} {state} {command}: {wchan} {}", syscall.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_in_our_own_group() {
        let leader = rustix::process::getpgrp().as_raw_nonzero().get();
        let own = std::process::id().to_string();
        assert!(group(leader).iter().any(|line| line.starts_with(&own)));
    }
}
