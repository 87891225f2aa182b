//! `docs/formats.md`: every stored format and its version, from the constants of the crates.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::ensure;

use super::MARK;

/// A format, and what the page says about it.
struct Format {
    name: &'static str,
    version: u32,
    /// The oldest version that is read; `None` for what nothing of ours reads.
    oldest: Option<u32>,
    content: &'static str,
}

/// The formats of pcache: its own name, the page's name, the content.
const OF_PCACHE: &[(&str, &str, &str)] = &[
    (
        "store",
        "store of `pcache`",
        "contents by BLAKE3 digest, a decision tree of facts for each weak key, a table of known digests",
    ),
    (
        "entries",
        "entries in it",
        "facts, effects, output, exit status",
    ),
    (
        "digest table",
        "table of known digests in it",
        "the digest of each file by device, inode, size and times",
    ),
    (
        "weak key",
        "weak key of `pcache`",
        "what identifies a unit before it starts",
    ),
    (
        "movable weak key",
        "weak key for other checkouts",
        "the same with the names of base directories",
    ),
    (
        "journal",
        "runs in the journal of `pcache`",
        "units of past runs, without secrets",
    ),
    (
        "remote path sets and results",
        "path sets and results in a remote cache",
        "what to look at; what to restore",
    ),
    (
        "remote bundles",
        "bundles there",
        "the result of a whole build with its contents",
    ),
    (
        "exports",
        "exports of a store",
        "all of a store as one stream",
    ),
    (
        "path lists",
        "lists in the store of `pcache`",
        "contents that do not mention base directories",
    ),
    (
        "JSON",
        "JSON of `pcache`",
        "`--json` of a run and of the subcommands",
    ),
];

/// The change that each version brought, by the name in the table.
const HISTORY: &[(&str, &[(u32, &str)])] = &[
    (
        "entries in it",
        &[
            (7, "got facts about what keys leave out"),
            (8, "attributes of files, and facts about them"),
            (9, "symbolic links have a place in the order of times"),
            (10, "facts about mounts"),
            (
                11,
                "directories in which names change have a place in the order of times",
            ),
        ],
    ),
    (
        "runs in the journal of `pcache`",
        &[
            (2, "facts of entries of version 9"),
            (3, "facts of entries of version 10"),
        ],
    ),
    (
        "weak key of `pcache`",
        &[
            (3, "leaves out what streams are"),
            (4, "scripts that come through pipes are looked through"),
            (5, "`-ef` and `-N` in scripts count"),
            (
                6,
                "results lack no facts about files of `/proc`, names before an append, slashes and attributes",
            ),
            (7, "nor about other names of changed files and of links"),
        ],
    ),
    (
        "path sets and results in a remote cache",
        &[
            (2, "got hints"),
            (
                3,
                "what make says of its location is stored as pieces of streams",
            ),
            (4, "facts about what keys leave out"),
            (5, "attributes of files, and facts about them"),
            (6, "symbolic links have a place in the order of times"),
            (7, "facts about mounts"),
            (
                8,
                "directories in which names change have a place in the order of times",
            ),
        ],
    ),
    (
        "trace of `reprise`",
        &[
            (2, "a mark at its end"),
            (3, "digests of what is printed"),
            (5, "a note of the files that change while they are mapped"),
            (
                6,
                "the code around execution points in code that programs make",
            ),
            (
                7,
                "the time of each record, and what is in memory at execution points",
            ),
        ],
    ),
    (
        "copies of libraries",
        &[
            (2, "reads, writes and positions do not stop"),
            (3, "fewer lookups and stops when a program starts"),
            (4, "call sites of static programs and of Go are patched"),
        ],
    ),
    (
        "recording of `rr-channel`",
        &[
            (4, "what channels carry"),
            (5, "the processes that a recorded one starts"),
            (6, "what threads read from clocks"),
        ],
    ),
    (
        "log of a thread in it",
        &[(3, "random bytes and values that a program fixes")],
    ),
    (
        "journal of `servo-harness`",
        &[
            (2, "plain runs beside replays"),
            (
                3,
                "tests that fail beside others, and engines that were tried",
            ),
        ],
    ),
];

const HEAD: &str = "# Formats

Each stored or printed format has a version. A program refuses or ignores what another version wrote, unless
the table says that it reads older versions.

| format | version | reads | content |
|---|---|---|---|
";

const END: &str = "
A change of a stored format has a new version and a line in the
[changelog](../CHANGELOG.md).
";

/// Makes the page.
///
/// # Errors
/// When a format of pcache is unknown here.
pub(super) fn page() -> anyhow::Result<String> {
    let mut page = format!("{MARK}\n{HEAD}");
    for format in formats()? {
        let reads = match format.oldest {
            None => String::new(),
            Some(oldest) if oldest == format.version => oldest.to_string(),
            Some(oldest) => format!("{oldest} to {}", format.version),
        };
        writeln!(
            page,
            "| {} | {} | {reads} | {} |",
            format.name, format.version, format.content
        )?;
    }
    page.push_str("\n## What each version changed\n\n");
    for (name, changes) in HISTORY {
        let mut name = (*name).to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let changes: Vec<String> = changes
            .iter()
            .map(|(version, change)| format!("**{version}:** {change}."))
            .collect();
        writeln!(page, "- {name}: {}", changes.join(" "))?;
    }
    page.push_str(END);
    Ok(page)
}

/// All formats, in the order of the table.
fn formats() -> anyhow::Result<Vec<Format>> {
    let mut versions: BTreeMap<_, _> = process_cache::cli::formats::formats().into_iter().collect();
    let mut formats = Vec::new();
    for &(key, name, content) in OF_PCACHE {
        let Some(version) = versions.remove(key) else {
            anyhow::bail!("pcache has no format `{key}`");
        };
        formats.push(Format {
            name,
            version,
            oldest: (key != "JSON").then_some(version),
            content,
        });
    }
    ensure!(
        versions.is_empty(),
        "the page says nothing of these formats of pcache: {versions:?}"
    );
    formats.extend(of_the_others());
    Ok(formats)
}

fn of_the_others() -> [Format; 10] {
    use reprise::{record, trace};
    use rr_channel_log as log;
    use servo_harness::store::{artefact, journal};
    let only = |name, version, content| Format {
        name,
        version,
        oldest: Some(version),
        content,
    };
    [
        only(
            "copies of libraries",
            ptrace_async::runtime::COPIES_VERSION,
            "loaders and C libraries whose calls lead to code of `ptrace-async`",
        ),
        only(
            "trace of `reprise`",
            trace::FORMAT,
            "records, header, copies of files",
        ),
        only(
            "note of packed files in it",
            trace::pack::FORMAT,
            "which files of the system have been copied",
        ),
        only(
            "hints of `reprise` (`~/.cache/reprise`)",
            record::HINTS_VERSION,
            "what recordings have found in the code of the system's files",
        ),
        Format {
            name: "recording of `rr-channel`",
            version: log::RECORDING_VERSION.into(),
            oldest: Some(log::OLDEST_RECORDING_VERSION.into()),
            content: "the log of each thread, and the processes",
        },
        Format {
            name: "log of a thread in it",
            version: log::FORMAT_VERSION.into(),
            oldest: Some(log::OLDEST_FORMAT_VERSION.into()),
            content: "events",
        },
        only(
            "reads of clocks in it",
            log::CLOCKS_VERSION.into(),
            "what a thread read from clocks, and where in its log",
        ),
        only(
            "payloads of messages",
            last_number(log::PAYLOADS_TITLE),
            "what messages hold",
        ),
        only(
            "journal of `servo-harness`",
            journal::VERSION,
            "runs of tests, plain and in replay",
        ),
        only(
            "recordings beside the tests",
            artefact::VERSION,
            "a text file and a recording",
        ),
    ]
}

/// The number at the end of a title.
fn last_number(title: &str) -> u32 {
    let digits = title.trim_end().rsplit(' ').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_format_has_the_version_0() {
        for format in formats().unwrap() {
            assert_ne!(format.version, 0, "{}", format.name);
        }
    }

    #[test]
    fn a_version_above_1_says_what_it_changed() {
        for format in formats().unwrap() {
            let history = HISTORY.iter().find(|(name, _)| *name == format.name);
            if let Some((_, changes)) = history {
                let last = changes.last().map(|(version, _)| *version);
                assert_eq!(last, Some(format.version), "{}", format.name);
            } else {
                // The weak key for other checkouts has changed with the other one.
                let is_explained = format.version == 1 || format.name.starts_with("weak key");
                assert!(is_explained, "{}", format.name);
            }
        }
        for (name, _) in HISTORY {
            assert!(formats().unwrap().iter().any(|format| format.name == *name));
        }
    }
}
