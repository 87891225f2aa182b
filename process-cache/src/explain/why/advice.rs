//! General advice on how to make a unit cacheable.

/// Returns advice for an uncacheable reason.
pub fn of(reason: &str) -> Option<&'static str> {
    let reason = reason.to_ascii_lowercase();
    let has = |word: &str| reason.contains(word);
    Some(if has("time of day") || has("clock") || has("date") {
        "Leave the time out of what it makes, or give it one that stays: SOURCE_DATE_EPOCH, the time of the last commit."
    } else if has("random") {
        "Give it a fixed seed or a fixed name, or leave it in a step of its own: what follows can be skipped when the result is the same."
    } else if has("network") || has("connect") || has("socket") {
        "Fetch in a step of its own, before the build, into files whose content is checked."
    } else if has("changed by another unit") || has("names in") {
        "Two steps write or read one place at the same time: let one wait for the other, or give each a place of its own."
    } else if has("outside of pcache") {
        "Something outside changes files during the build (an editor, a synchroniser): run it again when that is quiet."
    } else if has("pipe or terminal") || has("terminal") || has("pipe") {
        "Let it read from a file or /dev/null, and write to a file or to its standard output."
    } else if has("environment") {
        "It shows all variables: print the few that matter instead."
    } else if has("left behind") || has("leaves processes") {
        "It leaves a daemon running: start that before the build (for Gradle, sccache and the like), or let it wait for it."
    } else if has("/proc") || has("/sys") {
        "It asks the machine: pass it a fixed number (of jobs, say) instead."
    } else if has("signal") {
        "Signals from outside cannot be repeated; only a run without them is stored."
    } else if has("set-uid") {
        "Programs with other rights are never skipped: keep them in a step of their own."
    } else if has("32-bit") || has("64-bit") {
        "Only 64-bit programs can be followed: use a 64-bit one where there is one."
    } else {
        return None;
    })
}

/// Variables that describe a user's session, and seldom affect a build.
const OF_SESSIONS: [&str; 14] = [
    "COLORTERM",
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "LINES",
    "LS_COLORS",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "TERM",
    "WINDOWID",
    "XDG_SESSION_ID",
];

/// Returns advice if these environment variables made the difference. Variables that may control a
/// build have none.
pub fn of_variables(names: &[&str]) -> Option<String> {
    let names: Vec<&&str> = names
        .iter()
        .filter(|name| OF_SESSIONS.contains(*name))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "if you are sure that no program reads them: ignore_variables = {names:?} in the \
             configuration (`pcache doctor` names the file)"
        )
    })
}

/// Advice if results belong to other directories.
pub const OF_DIRECTORIES: &str = "to take results of other directories, run with `--root worktree=DIR` in each; where that \
     was given, `--explain` says of each unit what binds it to its place";
