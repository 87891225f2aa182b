//! Names of programs without directory, target triple and version; and the directories of
//! installed programs.

/// Whether a program is in a directory of installed programs.
pub(super) fn is_installed(program: &[u8]) -> bool {
    let mut directories = program.rsplit(|&b| b == b'/').skip(1);
    [&b"/usr/"[..], b"/opt/", b"/nix/", b"/gnu/"]
        .iter()
        .any(|place| program.starts_with(place))
        || directories.any(|name| matches!(name, b"bin" | b"sbin" | b"libexec"))
        // Named by a test, or found along `PATH`.
        || !program.contains(&b'/')
}

/// Returns the name without directory, target triple and version
/// (`/usr/bin/x86_64-linux-gnu-gcc-12` is `gcc`).
pub fn plain_name(program: &[u8]) -> &[u8] {
    let mut name = program.rsplit(|&b| b == b'/').next().unwrap_or(program);
    for prefix in [&b"x86_64-linux-gnu-"[..], b"x86_64-pc-linux-gnu-"] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    if let Some(dash) = name.iter().rposition(|&b| b == b'-') {
        let version = &name[dash + 1..];
        if !version.is_empty() && version.iter().all(|b| b.is_ascii_digit() || *b == b'.') {
            name = &name[..dash];
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triples_and_versions_are_no_part_of_a_name() {
        assert_eq!(plain_name(b"/usr/bin/x86_64-linux-gnu-gcc-12"), b"gcc");
        assert_eq!(plain_name(b"gcc-ar"), b"gcc-ar");
        assert_eq!(plain_name(b"python3.11"), b"python3.11");
    }
}
