//! Past runs as text.

use crate::engine::report::seconds;
use crate::explain::why::{Cause, Explainer, Explanation, Kind, Overview, Place, Reason, advice};
use crate::journal::{Entry, Run};
use crate::model::fate::Fate;
use crate::model::outcome::{Effect, Ending};
use crate::platform::clock::{ago, local};
use crate::store::Recorded;

pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{start}…")
}

/// Returns the directory of the command.
pub(super) fn base(run: &Run) -> String {
    run.directory().to_string_lossy().into_owned()
}

pub(super) fn ended(ending: Ending) -> String {
    match ending {
        Ending::Exited(0) => String::new(),
        Ending::Exited(status) => format!(", exit status {status}"),
        Ending::Killed(signal) => format!(", killed by signal {signal}"),
    }
}

pub(super) fn run_line(run: &Run) -> String {
    let hits = run
        .units
        .iter()
        .filter(|unit| matches!(unit.fate, Some(Fate::Hit { .. })))
        .count();
    let command = run
        .unit(1)
        .map_or_else(String::new, |unit| run.command(unit, 60));
    let saved = run.saved_us();
    let saved = if saved > 0 {
        format!(", saved {}", seconds(saved))
    } else {
        String::new()
    };
    let is_here = std::env::current_dir().is_ok_and(|here| here == run.directory());
    let place = match is_here {
        true => String::new(),
        false => format!(" in {}", run.directory().display()),
    };
    format!(
        "{}  {command}{place}  ({}, {}; {} units, {hits} skipped{saved}{})",
        run.id(),
        ago(run.began),
        seconds(run.wall_us as i64),
        run.units.len(),
        ended(run.ending)
    )
}

/// Returns the overview.
pub(super) fn overview_text(run: &Run, found: &Overview) -> String {
    /// Number of units named for each reason.
    const NAMED: usize = 3;
    let base = base(run);
    let mut text = run_line(run);
    text.push_str("\n\n");
    if found.ran == 0 {
        text.push_str(if found.skipped > 0 {
            "everything was skipped\n"
        } else {
            "nothing ran that is worth a lookup\n"
        });
        return text;
    }
    text.push_str(&format!(
        "{} ran, for {}:\n\n",
        count(found.ran as usize, "unit"),
        count(found.reasons.len(), "reason"),
    ));
    // A short list has room for more details on each reason.
    let roomy = found.reasons.len() <= 6;
    for (index, group) in found.reasons.iter().enumerate() {
        let reason = &group.reason;
        let mut line = reason.headline(&base);
        if let Some(detail) = reason.detail() {
            line.push_str(&format!("  ({detail})"));
        }
        text.push_str(&format!("{:>3}. {line}\n", index + 1));
        if roomy
            && let Some(Cause::Outside { modified: Some(at) }) = &reason.cause
            && reason.kind != Kind::Gone
        {
            text.push_str(&format!(
                "       changed outside of pcache, {}\n",
                local(*at)
            ));
        }
        let cost = match group.wall_us {
            0 => String::new(),
            us => format!(", {}", seconds(us as i64)),
        };
        let named = if roomy { NAMED } else { 1 };
        for (place, number) in group.units.iter().take(named).enumerate() {
            let Some(unit) = run.unit(*number) else {
                continue;
            };
            let rest = group.units.len().saturating_sub(named);
            let more = match (rest, place + 1 == named.min(group.units.len())) {
                (0, true) => cost.clone(),
                (rest, true) => format!(" and {} more{cost}", rest),
                _ => String::new(),
            };
            text.push_str(&format!(
                "       {}  (unit {number}){more}\n",
                run.command(unit, 64)
            ));
        }
    }
    let mut rest = Vec::new();
    if found.skipped > 0 {
        rest.push(format!("{} skipped", found.skipped));
    }
    if found.short > 0 {
        rest.push(format!("{} too short to cache", found.short));
    }
    if found.internal > 0 {
        rest.push(format!("{} covered by the unit above", found.internal));
    }
    if !rest.is_empty() {
        text.push_str(&format!("\nthe others: {}\n", rest.join(", ")));
    }
    let variables = found.reasons.iter().map(|group| &group.reason);
    let variables: Vec<&str> = variables
        .filter(|reason| reason.kind == Kind::Variable)
        .map(|reason| reason.subject.as_str())
        .collect();
    if let Some(advice) = advice::of_variables(&variables) {
        text.push_str(&format!("{advice}\n"));
    }
    if found
        .reasons
        .iter()
        .any(|it| it.reason.kind == Kind::Directory)
    {
        text.push_str(&format!("{}\n", advice::OF_DIRECTORIES));
    }
    text.push_str("`pcache why N` explains unit N, `pcache graph` shows all\n");
    text
}

pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

pub(super) fn cause_text(reason: &Reason, base: &str, indent: usize, text: &mut String) {
    match &reason.cause {
        Some(Cause::Unit {
            run,
            unit,
            command,
            restored,
            because,
        }) => {
            let how = if *restored { "restored" } else { "written" };
            let place = " ".repeat(indent);
            text.push_str(&format!(
                "{place}{how} by unit {unit} of run {run}: {command}\n"
            ));
            if let Some(because) = because {
                let place = " ".repeat(indent + 2);
                text.push_str(&format!(
                    "{place}which ran because {}\n",
                    because.headline(base)
                ));
                if indent < 40 {
                    cause_text(because, base, indent + 4, text);
                }
            }
        }
        Some(Cause::Outside { modified }) => {
            let place = " ".repeat(indent);
            let when = match modified {
                Some(at) if reason.kind != Kind::Gone => format!(", modified {}", local(*at)),
                _ => String::new(),
            };
            text.push_str(&format!("{place}changed outside of pcache{when}\n"));
        }
        None => {}
    }
}

pub(super) fn fate_words(unit: &Entry) -> String {
    let took = seconds(unit.wall_us as i64);
    match &unit.fate {
        Some(Fate::Hit {
            recorded_us, units, ..
        }) => format!(
            "was skipped in {took}: {} that took {} when they ran",
            count(*units as usize, "unit"),
            seconds(*recorded_us as i64)
        ),
        Some(Fate::Stored) => format!("ran for {took}, now stored"),
        Some(Fate::NotStored { reason }) => format!("ran for {took}, not cached: {reason}"),
        None => "was still running when the command ended".to_owned(),
    }
}

/// Returns query, subject and answer of a fact in words.
pub(super) fn fact_words(fact: &crate::model::fact::Fact) -> (&'static str, String, String) {
    use crate::model::fact::{Answer, Query};
    let answer = match &fact.answer {
        Answer::Error(libc::ENOENT) => "absent".to_owned(),
        Answer::Error(errno) => std::io::Error::from_raw_os_error(*errno).to_string(),
        Answer::File(digest) => format!("content {digest}"),
        Answer::Directory => "a directory".to_owned(),
        Answer::Special { .. } => "a special file".to_owned(),
        Answer::Metadata(data) => match fact.query {
            Query::Inode { .. } => data.inode.1.to_string(),
            _ => format!("mode {:o}, {} bytes", data.mode, data.size),
        },
        Answer::Granted => "granted".to_owned(),
        Answer::Path(path) => path.display().to_string(),
        Answer::Summary(digest) => format!("digest {digest}"),
        Answer::Writable => "free to write".to_owned(),
        Answer::Unknown(why) => why.clone(),
    };
    let (question, path) = match &fact.query {
        Query::Content(path) => ("content", path),
        Query::Stat { path, .. } => ("metadata", path),
        Query::Access { path, .. } => ("access", path),
        Query::Link(path) => ("link", path),
        Query::List(path) => ("names", path),
        Query::RealPath(path) => ("real_path", path),
        Query::Target(path) | Query::Replaced(path) => ("target", path),
        Query::Kind { path, .. } => ("kind", path),
        Query::Inode { path, .. } => ("inode", path),
        Query::Permissions(path) => ("permissions", path),
        Query::StatFs(path) => ("file_system", path),
        Query::Xattr { path, .. } | Query::Attributes(path) => ("attributes", path),
        Query::Inherited(path) => ("inherited", path),
        Query::Order(paths) => return ("order", format!("{} files", paths.len()), answer),
        Query::OneMount {
            paths: [one, other],
            ..
        } => {
            let both = format!("{} {}", one.display(), other.display());
            return ("one_mount", both, answer);
        }
        Query::LeftOut(part) => return ("left_out", format!("{part:?}").to_lowercase(), answer),
    };
    (question, path.display().to_string(), answer)
}

/// Returns an effect's kind and details in words.
pub(super) fn effect_words(effect: &Effect) -> (&'static str, String) {
    match effect {
        Effect::Write { length, .. } => ("write", format!("{length} bytes")),
        Effect::Append { length, .. } => ("append", format!("{length} bytes")),
        Effect::MakeDir { mode, .. } => ("make_directory", format!("mode {mode:o}")),
        Effect::Symlink { target, .. } => ("symlink", target.display().to_string()),
        Effect::HardLink { to, .. } => ("hard_link", to.display().to_string()),
        Effect::Remove { .. } => ("remove", String::new()),
        Effect::RemoveDir { .. } => ("remove_directory", String::new()),
        Effect::Chmod { mode, .. } => ("permissions", format!("mode {mode:o}")),
        Effect::SetTimes { .. } => ("times", String::new()),
        Effect::Attribute { name, value, .. } => {
            let name = String::from_utf8_lossy(name).into_owned();
            match value {
                Some(_) => ("attribute", name),
                None => ("remove_attribute", name),
            }
        }
    }
}

/// Explains why a unit ran, or was not cached.
pub(super) fn why_text(
    run: &Run,
    (number, unit): (u32, &Entry),
    explanation: &Explanation,
    against: Option<(Place, (&Run, &Entry))>,
) -> String {
    let base = base(run);
    let mut text = format!(
        "unit {number} of run {}: {}\n",
        run.id(),
        run.command(unit, 400)
    );
    text.push_str(&format!("{}\n", fate_words(unit)));
    for (index, reason) in explanation.reasons.iter().enumerate() {
        let mark = if index == 0 { "because" } else { "also" };
        text.push_str(&format!("{mark:>9}  {}", reason.headline(&base)));
        if let Some(detail) = reason.detail() {
            text.push_str(&format!("  ({detail})"));
        }
        text.push('\n');
        cause_text(reason, &base, 11, &mut text);
        if index == 9 && explanation.reasons.len() > 10 {
            let rest = explanation.reasons.len() - 10;
            text.push_str(&format!("           and {rest} more\n"));
            break;
        }
    }
    if let Some(Fate::NotStored { reason }) = &unit.fate
        && let Some(advice) = advice::of(reason)
    {
        text.push_str(&format!("what would help: {advice}\n"));
    }
    if let Some((place, (former, other))) = against {
        text.push_str(&format!(
            "compared with unit {} of run {} ({}): {}\n",
            place.1,
            former.id(),
            ago(former.began),
            former.command(other, 80)
        ));
    }
    text
}

/// Returns the tree of a run's units.
pub(super) fn graph_text(explainer: &Explainer<'_>, at: usize, all: bool) -> String {
    let run = &explainer.history.runs[at];
    let base = base(run);
    let mut below: Vec<Vec<u32>> = vec![Vec::new(); run.units.len() + 1];
    let mut hidden = 0;
    for (number, unit) in run.numbered() {
        let place = (unit.above as usize).min(run.units.len());
        if unit.above < number {
            below[place].push(number);
        }
    }
    let mut text = format!("{}\n\n", run_line(run));
    // Depth first, without recursion: trees may have any depth.
    let mut open: Vec<u32> = below[0].iter().rev().copied().collect();
    while let Some(number) = open.pop() {
        let Some(unit) = run.unit(number) else {
            continue;
        };
        open.extend(below[number as usize].iter().rev());
        let explanation = explainer.explain((at, number));
        let first = explanation.reasons.first();
        let is_leaf = below[number as usize].is_empty();
        let dull = first.is_some_and(|reason| matches!(reason.kind, Kind::Short | Kind::Internal));
        if dull && is_leaf && !all {
            hidden += 1;
            continue;
        }
        let (mark, why) = match &unit.fate {
            Some(Fate::Hit {
                recorded_us,
                took_us,
                ..
            }) => {
                let saved = *recorded_us as i64 - *took_us as i64;
                let saved = if saved >= 0 {
                    format!("saved {}", seconds(saved))
                } else {
                    format!("lost {}", seconds(-saved))
                };
                ("hit ", saved)
            }
            fate => {
                let mark = match fate {
                    Some(Fate::Stored) => "miss",
                    _ => "run ",
                };
                let why = first.map_or_else(String::new, |reason| reason.headline(&base));
                (mark, why)
            }
        };
        let depth = run.depth(number) as usize;
        text.push_str(&format!(
            "{number:>4} {mark} {:>8}  {}{}  ({})\n",
            seconds(unit.wall_us as i64),
            "  ".repeat(depth.min(30)),
            run.command(unit, 70),
            cut(&why, 100)
        ));
    }
    if hidden > 0 {
        text.push_str(&format!("{hidden} short ones are not shown (--all)\n"));
    }
    text
}

/// Returns a unit with its stored result.
pub(super) fn result_text(
    run: &Run,
    (number, unit): (u32, &Entry),
    result: Option<&Recorded>,
    environment: &[String],
) -> String {
    let mut text = format!("unit {number} of run {}\n", run.id());
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:>12}  {value}\n"));
    line("command", run.command(unit, usize::MAX));
    line(
        "program",
        String::from_utf8_lossy(run.text(unit.program)).into_owned(),
    );
    line(
        "directory",
        String::from_utf8_lossy(run.text(unit.cwd)).into_owned(),
    );
    line("result", fate_words(unit));
    if let Some(key) = unit.key {
        line("weak key", key.to_string());
    }
    if let Some(result) = result {
        line("depends on", count(result.facts.len(), "fact"));
        for fact in &result.facts {
            let (question, subject, answer) = fact_words(fact);
            let answer = cut(&answer, 60);
            text.push_str(&format!(
                "              {question:<12} {subject}: {answer}\n"
            ));
        }
        if let Some(outcome) = &result.outcome {
            text.push_str(&format!(
                "{:>12}  {}\n",
                "leaves",
                count(outcome.effects.len(), "change")
            ));
            for effect in &outcome.effects {
                let (what, more) = effect_words(effect);
                let path = effect.path().display();
                text.push_str(&format!("              {what:<12} {path} {more}\n"));
            }
        }
    } else {
        for path in &unit.outputs {
            let path = String::from_utf8_lossy(run.text(*path)).into_owned();
            text.push_str(&format!("{:>12}  {path}\n", "wrote"));
        }
    }
    text.push_str(&format!(
        "{:>12}  {}\n",
        "environment",
        count(environment.len(), "variable")
    ));
    for variable in environment {
        text.push_str(&format!("              {}\n", cut(variable, 120)));
    }
    text
}
