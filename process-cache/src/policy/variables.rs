//! Environment variables that are not part of a program's key.

use super::{Policy, plain_name};

/// Variables that belong to the user's session rather than the work, or to the builder rather than
/// the programs that it starts.
pub(super) const IGNORED: &[&str] = &[
    "_",
    "OLDPWD",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "SSH_AUTH_SOCK",
    "WINDOWID",
    "XDG_SESSION_ID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "GPG_TTY",
    "MAKE_TERMOUT",
    "MAKE_TERMERR",
];

/// Variables with the calls and nesting of makes and shells ([`Policy::ignores_nesting`]).
pub(super) const IGNORED_BY_SOME: &[&str] = &["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "SHLVL"];

/// Whether a variable is not part of a program's key. The key of a program that shows the whole
/// environment (`env`) contains all variables.
pub fn ignores_variable(name: &[u8], program: &[u8], policy: &Policy) -> bool {
    if matches!(plain_name(program), b"env" | b"printenv") {
        return false;
    }
    if tells_nesting(name) {
        return policy.ignores_nesting;
    }
    // The variables of pcache itself, such as the location of the store, do not affect the work.
    if name.starts_with(b"PCACHE_") {
        return true;
    }
    IGNORED.iter().any(|own| own.as_bytes() == name)
}

/// Whether a variable contains the calls or nesting of makes and shells.
pub fn tells_nesting(name: &[u8]) -> bool {
    IGNORED_BY_SOME.iter().any(|own| own.as_bytes() == name)
}

/// Whether these arguments make a program show its whole environment, with the variables that
/// [`ignores_variable`] omits elsewhere.
pub fn shows_environment(program: &[u8], argv: &[Vec<u8>]) -> bool {
    match plain_name(program) {
        b"printenv" => true,
        b"env" => {
            let mut arguments = argv.iter().skip(1);
            while let Some(argument) = arguments.next() {
                match argument.as_slice() {
                    b"-u" | b"--unset" | b"-C" | b"--chdir" => drop(arguments.next()),
                    b"--" => return arguments.all(|argument| argument.contains(&b'=')),
                    option
                        if option.starts_with(b"-S") || option.starts_with(b"--split-string") =>
                    {
                        return false;
                    }
                    option if option.starts_with(b"-") => {}
                    assignment if assignment.contains(&b'=') => {}
                    _command => return false,
                }
            }
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Vec<Vec<u8>> {
        list.iter().map(|s| s.as_bytes().to_vec()).collect()
    }

    #[test]
    fn env_shows_the_environment_unless_it_has_a_command() {
        for shown in [
            &["env"][..],
            &["env", "A=b"],
            &["env", "-i", "A=b"],
            &["env", "-u", "A"],
            &["env", "-0", "-C", "dir", "A=b"],
            &["env", "--", "A=b"],
        ] {
            assert!(
                shows_environment(b"/usr/bin/env", &args(shown)),
                "{shown:?}"
            );
        }
        for hidden in [
            &["env", "make"][..],
            &["env", "A=b", "make"],
            &["env", "-u", "A", "-i", "make", "C=d"],
            &["env", "--", "A=b", "make"],
            &["env", "-S", "make all"],
        ] {
            assert!(
                !shows_environment(b"/usr/bin/env", &args(hidden)),
                "{hidden:?}"
            );
        }
        assert!(shows_environment(
            b"/usr/bin/printenv",
            &args(&["printenv", "A"])
        ));
        assert!(!shows_environment(b"/bin/sh", &args(&["sh"])));
    }
}
