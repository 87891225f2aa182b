//! Policies of the rows of [`PROGRAMS`](super::programs::PROGRAMS), derived from arguments.

use super::arguments::{Arguments, is_complete_date, is_dated};
use super::script::{Scripts, compares_times};
use super::{Outputs, Policy};
use crate::model::fact::TimeUse;

/// Returns [`TimeUse::Modified`] if the condition holds.
fn modified_if(condition: bool) -> TimeUse {
    if condition {
        TimeUse::Modified
    } else {
        TimeUse::None
    }
}

/// Returns [`TimeUse::Exact`] if the condition holds, else `otherwise`.
fn exact_if(condition: bool, otherwise: TimeUse) -> TimeUse {
    if condition { TimeUse::Exact } else { otherwise }
}

pub(super) fn unknown(_: &Arguments<'_>) -> Policy {
    Policy::STRICT
}

/// Policy of programs that read contents and names only.
pub(super) fn tool(_: &Arguments<'_>) -> Policy {
    Policy::tool(TimeUse::None)
}

/// Policy of programs that print nothing on success.
pub(super) fn quiet(_: &Arguments<'_>) -> Policy {
    Policy::quiet(TimeUse::None)
}

/// Policy of programs that copy one stream to another, independent of the nesting of makes and
/// shells.
pub(super) fn filter(_: &Arguments<'_>) -> Policy {
    Policy {
        ignores_nesting: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn gcc(args: &Arguments<'_>) -> Policy {
    Policy {
        outputs: Outputs::Written,
        reads_own_statistics: true,
        random: !args.draw_build_id(),
        // Specs can name environment variables.
        ignores_nesting: !args.has_start(b"-specs") && !args.has_start(b"--specs"),
        ..Policy::compiler(TimeUse::None)
    }
}

pub(super) fn binutils(args: &Arguments<'_>) -> Policy {
    Policy {
        outputs: Outputs::Removed,
        reads_own_statistics: true,
        random: !args.draw_build_id(),
        ..Policy::compiler(TimeUse::None)
    }
}

pub(super) fn gold(_: &Arguments<'_>) -> Policy {
    Policy {
        reads_own_statistics: true,
        ..Policy::compiler(TimeUse::None)
    }
}

pub(super) fn clang(_: &Arguments<'_>) -> Policy {
    Policy {
        reads_own_statistics: true,
        ignores_nesting: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn link_time(_: &Arguments<'_>) -> Policy {
    Policy {
        reads_own_statistics: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn archiver(args: &Arguments<'_>) -> Policy {
    // `D` is the default of the distribution's binutils; `U` undoes it. Arguments that follow the
    // operation in a file (`ar cr lib.a @objects`) are members.
    let may_undo = |operation: &Vec<u8>| operation.contains(&b'U') || operation.starts_with(b"@");
    let undone = args.has_letter(b'U') || args.argv.get(1).is_some_and(may_undo);
    Policy::compiler(exact_if(undone, TimeUse::None))
}

pub(super) fn strip(args: &Arguments<'_>) -> Policy {
    Policy {
        permissions: true,
        ..Policy::compiler(modified_if(args.has_letter(b'p') || args.has_start(b"--p")))
    }
}

pub(super) fn object_reader(args: &Arguments<'_>) -> Policy {
    filter(args)
}

pub(super) fn make(args: &Arguments<'_>) -> Policy {
    let follows_links = args.has_letter(b'L') || args.has_start(b"--check-s");
    Policy {
        reads_own_statistics: true,
        terminal: true,
        ..Policy::tool(exact_if(follows_links, TimeUse::Order))
    }
}

pub(super) fn sh(_: &Arguments<'_>) -> Policy {
    Policy {
        scripts: Scripts::Shell,
        ignores_directory_times: true,
        ..Policy::time(TimeUse::Order)
    }
}

pub(super) fn bash(_: &Arguments<'_>) -> Policy {
    Policy {
        // It notes the time and seeds `$RANDOM`.
        clock_reads_at_start: 3,
        scripts: Scripts::Bash,
        ignores_directory_times: true,
        ..Policy::time(TimeUse::Order)
    }
}

pub(super) fn cmake(_: &Arguments<'_>) -> Policy {
    Policy {
        random: false,
        reads_own_statistics: true,
        ..Policy::tool(TimeUse::Order)
    }
}

pub(super) fn recording_builder(_: &Arguments<'_>) -> Policy {
    Policy {
        reads_own_statistics: true,
        ..Policy::tool(TimeUse::Modified)
    }
}

pub(super) fn rustc(_: &Arguments<'_>) -> Policy {
    Policy {
        clock: false,
        running_clock: true,
        random: false,
        reads_own_statistics: true,
        // Procedural macros.
        runs_own_code: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn python(args: &Arguments<'_>) -> Policy {
    let name = args.name;
    // On import, the module `time` queries the current year once, to name the time zones. These
    // versions import it before any script.
    let asks_the_year = matches!(name, b"python3.10" | b"python3.11" | b"python3.12");
    Policy {
        clock_reads_at_start: u32::from(asks_the_year),
        seeks_at_start: if name.starts_with(b"python3") { 2 } else { 0 },
        running_clock: true,
        scripts: Scripts::Python,
        ..Policy::time(TimeUse::Modified)
    }
}

pub(super) fn awk(_: &Arguments<'_>) -> Policy {
    Policy {
        scripts: Scripts::Awk,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn conftest(_: &Arguments<'_>) -> Policy {
    Policy {
        runs_own_code: true,
        sets_given_times: true,
        permissions: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn perl(_: &Arguments<'_>) -> Policy {
    Policy {
        clock_reads_at_start: 1,
        scripts: Scripts::Perl,
        ..Policy::time(TimeUse::Modified)
    }
}

pub(super) fn editor(_: &Arguments<'_>) -> Policy {
    Policy {
        permissions: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn compressor(args: &Arguments<'_>) -> Policy {
    Policy {
        permissions: true,
        ..Policy::tool(modified_if(args.name_input()))
    }
}

pub(super) fn test(args: &Arguments<'_>) -> Policy {
    Policy {
        ignores_directory_times: !args.argv.iter().any(|arg| compares_times(arg)),
        inodes: args.has(b"-ef"),
        unknown: args.has(b"-N").then_some("asks when files were read"),
        ..Policy::time(TimeUse::Order)
    }
}

pub(super) fn mktemp(_: &Arguments<'_>) -> Policy {
    Policy {
        names: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn xgettext(args: &Arguments<'_>) -> Policy {
    if args.has_start(b"--omit-header") {
        Policy::tool(TimeUse::None)
    } else {
        Policy::STRICT
    }
}

pub(super) fn mv(args: &Arguments<'_>) -> Policy {
    Policy::quiet(modified_if(args.has_letter(b'u') || args.has_start(b"--u")))
}

pub(super) fn sleep(_: &Arguments<'_>) -> Policy {
    Policy {
        waits: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn nice(args: &Arguments<'_>) -> Policy {
    if args.argv.len() > 1 {
        Policy::tool(TimeUse::None)
    } else {
        Policy::STRICT
    }
}

pub(super) fn flock(_: &Arguments<'_>) -> Policy {
    Policy {
        unknown: Some("takes a lock"),
        ..Policy::STRICT
    }
}

pub(super) fn sort(args: &Arguments<'_>) -> Policy {
    // `-R` asks for a random order, also as part of a key option.
    let is_random = args.given().iter().any(|arg| match arg.as_slice() {
        [b'-', b'-', ..] => {
            arg.starts_with(b"--r") || arg.starts_with(b"--s") || arg.contains(&b'R')
        }
        [b'-' | b'0'..=b'9', ..] => arg.contains(&b'R'),
        _ => arg == b"random",
    });
    Policy {
        random: !is_random,
        ignores_nesting: true,
        ..Policy::tool(TimeUse::None)
    }
}

pub(super) fn dd(_: &Arguments<'_>) -> Policy {
    Policy::time(TimeUse::None)
}

pub(super) fn diff(args: &Arguments<'_>) -> Policy {
    // The header of a unified or context diff contains the files' times.
    let shows_times = args.has_letter_of(b"ucUCpF0123456789") || args.has_start(b"--");
    Policy {
        usage: true,
        ..Policy::time(modified_if(shows_times))
    }
}

pub(super) fn tar(args: &Arguments<'_>) -> Policy {
    if archives_more_than_times(args) {
        Policy::STRICT
    } else {
        Policy::tool(TimeUse::Modified)
    }
}

pub(super) fn gzip(args: &Arguments<'_>) -> Policy {
    // It stores the time of a file that it compresses by name.
    let nameless = args.has_letter(b'n') || args.has_letter(b'd');
    Policy {
        permissions: true,
        ..Policy::time(modified_if(!nameless || args.name_input()))
    }
}

pub(super) fn gunzip(_: &Arguments<'_>) -> Policy {
    Policy::time(TimeUse::Modified)
}

pub(super) fn copy(args: &Arguments<'_>) -> Policy {
    let keeps_times = args.has_letter_of(b"pau") || args.has_start(b"--");
    Policy::quiet(modified_if(keeps_times))
}

pub(super) fn touch(args: &Arguments<'_>) -> Policy {
    let has_reference = args.has_letter(b'r') || args.has_start(b"--r");
    let all = args.argv;
    let is_value = |at: usize| at > 0 && (all[at - 1] == b"-d" || all[at - 1] == b"--date");
    let is_dated =
        |(at, arg): (usize, &Vec<u8>)| is_dated(arg) || is_value(at) && is_complete_date(arg);
    Policy {
        clock: all.iter().enumerate().any(is_dated),
        ignores_nesting: true,
        sets_given_times: true,
        ..Policy::time(modified_if(has_reference))
    }
}

pub(super) fn ls(args: &Arguments<'_>) -> Policy {
    let shows_times = args.has_letter_of(b"lsogncu") || args.has_start(b"--");
    let sorts_by_time = args.has_letter(b't');
    let time = match (shows_times, sorts_by_time) {
        (true, _) => TimeUse::Exact,
        (false, true) => TimeUse::Order,
        (false, false) => TimeUse::None,
    };
    let uses_access_time =
        args.has_letter(b'u') || args.has_start(b"--time=a") || args.has_start(b"--time=u");
    Policy {
        unknown: uses_access_time.then_some("asks when files were read"),
        inodes: args.has_letter(b'i'),
        shows_own_inode: matches!(args.argv, [_, option, path] if option == b"-di" && path == b"."),
        usage: true,
        ..Policy::time(time)
    }
}

pub(super) fn find(args: &Arguments<'_>) -> Policy {
    /// Tests and actions that use more of a file than its name and kind.
    const METADATA: [&[u8]; 16] = [
        b"-printf",
        b"-fprintf",
        b"-ls",
        b"-fls",
        b"-mtime",
        b"-mmin",
        b"-atime",
        b"-amin",
        b"-ctime",
        b"-cmin",
        b"-inum",
        b"-samefile",
        b"-used",
        b"-newer",
        b"-anewer",
        b"-cnewer",
    ];
    let plain = !METADATA.iter().any(|flag| args.has_start(flag));
    let unknown = if args.has_start(b"-links") {
        Some("asks how many names directories have")
    } else if args.has_start(b"-a") && !plain || args.has_start(b"-used") {
        Some("asks when files were read")
    } else {
        None
    };
    Policy {
        unknown,
        // It notes its start time, to compare times with it.
        clock: plain,
        usage: plain,
        ..Policy::time(if plain { TimeUse::None } else { TimeUse::Exact })
    }
}

/// Whether tar uses more metadata of files than their modification times, or the present time.
fn archives_more_than_times(args: &Arguments<'_>) -> bool {
    const LETTERS: [u8; 4] = *b"gNSH";
    const NAMES: [&[u8]; 7] = [
        b"--listed",
        b"--newer",
        b"--after",
        b"--format=p",
        b"--posix",
        b"--sparse",
        b"--mtime",
    ];
    args.argv.iter().enumerate().skip(1).any(|(at, arg)| {
        if arg.starts_with(b"--") {
            NAMES.iter().any(|name| arg.starts_with(name)) && !is_dated(arg)
        } else {
            // The first argument needs no dash.
            (at == 1 || arg.starts_with(b"-")) && LETTERS.iter().any(|it| arg.contains(it))
        }
    })
}
