//! `why`, `log`, `show` and `graph`: past runs.
//!
//! The text is for people and may change; the JSON is described in
//! `docs/pcache-json.md`, and has a version.

use std::io::Write as _;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::{StoreArgs, open};
use crate::engine::report::seconds;
use crate::explain::why::{Cause, Explainer, Kind, Overview, Reason, advice, overview};
use crate::journal::{Entry, History, Run, secrets};
use crate::model::fate::Fate;
use crate::model::outcome::{Effect, Ending};
use crate::model::weak_key::WeakKey;
use crate::platform::clock::{ago, local};
use crate::store::Store;

/// The version of all JSON here.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Args)]
struct RunChoice {
    #[command(flatten)]
    store: StoreArgs,
    /// Which run: the beginning of its id (see `pcache log`), or -N for the Nth
    /// before the last one here. Without it, the last one of this directory, those above and
    /// below it.
    #[arg(long, value_name = "RUN", allow_hyphen_values = true)]
    run: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    #[command(flatten)]
    choice: RunChoice,
    /// One unit: its number, a file that it wrote, or a part of its command. Or a file or a
    /// variable that changed.
    #[arg(value_name = "UNIT")]
    unit: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// How many runs.
    #[arg(short = 'n', long, default_value_t = 20)]
    number: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    choice: RunChoice,
    /// One unit: its number, a file that it wrote, or a part of its command.
    #[arg(value_name = "UNIT")]
    unit: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct GraphArgs {
    #[command(flatten)]
    choice: RunChoice,
    /// Show units that are too short to cache, and parts of others, too.
    #[arg(long, short)]
    all: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Which run: the beginning of its id (see `pcache log`), or -N for the Nth
    /// before the last one here. Without it, the last one of this directory, those above and
    /// below it.
    #[arg(long, value_name = "RUN", allow_hyphen_values = true)]
    run: Option<String>,
    /// Where to; `-` is standard output. Without it, a new file where temporary files are: one
    /// more in the project would be something that changed there.
    #[arg(short, long, value_name = "FILE")]
    output: Option<std::path::PathBuf>,
}

/// Prints; whoever reads may have left.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn print_json(value: &Value) {
    print(&format!("{value:#}\n"));
}

/// The store and what is remembered in it.
pub(super) fn remembered(args: &StoreArgs) -> anyhow::Result<(Store, History)> {
    let store = open(args, true)?;
    let history = History::read(&store).context("cannot read the journal")?;
    Ok((store, history))
}

/// The place of the run with this name, or of the last one of the working directory.
fn chosen(history: &History, run: Option<&str>) -> anyhow::Result<usize> {
    // Whoever is nowhere means the last run of all.
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    history.find(run, &here).map_err(anyhow::Error::msg)
}

/// The unit that a user means.
fn find_unit(run: &Run, name: &str) -> anyhow::Result<u32> {
    if let Ok(number) = name.parse::<u32>() {
        run.unit(number)
            .with_context(|| format!("run {} has units 1 to {}", run.id(), run.units.len()))?;
        return Ok(number);
    }
    let made = |unit: &Entry| {
        unit.outputs.iter().any(|path| {
            let path = String::from_utf8_lossy(run.text(*path)).into_owned();
            path == name || path.ends_with(&format!("/{}", name.trim_start_matches("./")))
        })
    };
    let last = run.numbered().filter(|(_, unit)| made(unit)).last();
    if let Some((mut number, mut unit)) = last {
        // Parts of another unit are explained by that.
        while let Some(Fate::NotStored { reason }) = &unit.fate
            && Kind::of_uncacheable(reason) == Kind::Internal
            && let Some(above) = run.unit(unit.above)
        {
            (number, unit) = (unit.above, above);
        }
        return Ok(number);
    }
    let argv = |unit: &Entry| run.argv(unit);
    let is_program = |unit: &Entry| argv(unit).first().is_some_and(|arg| arg == name.as_bytes());
    let is_called = |unit: &Entry| {
        let plain = String::from_utf8_lossy(&argv(unit).join(&b' ')).into_owned();
        plain.contains(name) || run.command(unit, usize::MAX).contains(name)
    };
    let found = |is_it: &dyn Fn(&Entry) -> bool| -> Vec<(u32, String)> {
        let units = run.numbered().filter(|(_, unit)| is_it(unit));
        units
            .map(|(number, unit)| (number, run.command(unit, usize::MAX)))
            .collect()
    };
    // A shell above it may have the same in its script.
    let mut commands = found(&is_program);
    if commands.is_empty() {
        commands = found(&is_called);
    }
    match commands.as_slice() {
        [(number, _)] => Ok(*number),
        [] => bail!(
            "no unit of run {} wrote or is called {name}; pcache graph lists them",
            run.id()
        ),
        several => {
            let mut text = format!("{} units have this name:", several.len());
            for (number, command) in several.iter().take(20) {
                text.push_str(&format!("\n{number:>5}  {}", cut(command, 90)));
            }
            bail!(text)
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{start}…")
}

/// The directory of the command.
fn base(run: &Run) -> String {
    run.directory().to_string_lossy().into_owned()
}

fn ended(ending: Ending) -> String {
    match ending {
        Ending::Exited(0) => String::new(),
        Ending::Exited(status) => format!(", exit status {status}"),
        Ending::Killed(signal) => format!(", killed by signal {signal}"),
    }
}

fn run_line(run: &Run) -> String {
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

fn run_json(run: &Run) -> Value {
    let hits = run
        .units
        .iter()
        .filter(|unit| matches!(unit.fate, Some(Fate::Hit { .. })))
        .count();
    json!({
        "id": run.id(),
        "began_us": run.began,
        "wall_us": run.wall_us,
        "command": run.unit(1).map(|unit| texts(secrets::shown(run.argv(unit)))),
        "directory": base(run),
        "ending": match run.ending {
            Ending::Exited(status) => json!({ "status": status }),
            Ending::Killed(signal) => json!({ "signal": signal }),
        },
        "strict": run.mode.strict,
        "refresh": run.mode.refresh,
        "units": run.units.len(),
        "hits": hits,
        "saved_us": run.saved_us(),
    })
}

fn texts(list: Vec<Vec<u8>>) -> Vec<String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    list.into_iter().map(text).collect()
}

/// A unit with what became of it, and why.
pub(super) fn unit_json(run: &Run, number: u32, unit: &Entry, reasons: &[Reason]) -> Value {
    let (result, more) = match &unit.fate {
        Some(Fate::Hit {
            recorded_us,
            took_us,
            units,
        }) => (
            "hit",
            json!({ "recorded_us": recorded_us, "took_us": took_us, "units": units }),
        ),
        Some(Fate::Stored) => ("stored", json!({})),
        Some(Fate::NotStored { reason }) => ("not_stored", json!({ "reason": reason })),
        None => ("unfinished", json!({})),
    };
    let mut value = json!({
        "unit": number,
        "above": unit.above,
        "depth": run.depth(number),
        "command": texts(secrets::shown(run.argv(unit))),
        "program": String::from_utf8_lossy(run.text(unit.program)),
        "directory": String::from_utf8_lossy(run.text(unit.cwd)),
        "key": unit.key.map(|key| key.to_string()),
        "began_us": unit.began_us,
        "wall_us": unit.wall_us,
        "result": result,
        "miss": unit.miss.to_string(),
        "reasons": reasons,
        "outputs": unit.outputs.iter()
            .map(|path| String::from_utf8_lossy(run.text(*path)).into_owned())
            .collect::<Vec<_>>(),
    });
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

pub(super) fn log(args: &LogArgs) -> anyhow::Result<()> {
    let (_, history) = remembered(&args.store)?;
    let runs = history.runs.iter().rev().take(args.number);
    if args.json {
        let runs: Vec<Value> = runs.map(run_json).collect();
        print_json(&json!({ "version": VERSION, "runs": runs }));
        return Ok(());
    }
    let mut text = String::new();
    for run in runs {
        text.push_str(&run_line(run));
        text.push('\n');
    }
    if history.runs.is_empty() {
        text.push_str("nothing was run yet\n");
    }
    print(&text);
    Ok(())
}

pub(super) fn why(args: &WhyArgs) -> anyhow::Result<()> {
    let (store, history) = remembered(&args.choice.store)?;
    let at = chosen(&history, args.choice.run.as_deref())?;
    let run = &history.runs[at];
    let explainer = Explainer::new(&store, &history);
    let found = match &args.unit {
        None => overview(&explainer, at),
        Some(name) => match find_unit(run, name) {
            Ok(number) => return why_unit(&explainer, at, number, args.choice.json),
            Err(error) => overview(&explainer, at).about(name).ok_or(error)?,
        },
    };
    if args.choice.json {
        print_json(&json!({
            "version": VERSION,
            "run": run_json(run),
            "overview": found,
        }));
        return Ok(());
    }
    print(&overview_text(run, &found));
    Ok(())
}

/// The overview, which a person reads first.
fn overview_text(run: &Run, found: &Overview) -> String {
    /// So many units are named for each reason.
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
    // With few reasons there is room for more about each.
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

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn why_unit(all: &Explainer<'_>, at: usize, number: u32, as_json: bool) -> anyhow::Result<()> {
    let explanation = all.explain((at, number));
    let (run, unit) = all.at((at, number)).context("no such unit")?;
    let against = explanation
        .against
        .and_then(|place| Some((place, all.at(place)?)));
    if as_json {
        print_json(&json!({
            "version": VERSION,
            "run": run_json(run),
            "unit": unit_json(run, number, unit, &explanation.reasons),
            "against": against.map(|(place, (run, _))| json!({ "run": run.id(), "unit": place.1 })),
        }));
        return Ok(());
    }
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
    print(&text);
    Ok(())
}

fn cause_text(reason: &Reason, base: &str, indent: usize, text: &mut String) {
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

fn fate_words(unit: &Entry) -> String {
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

pub(super) fn report(args: &ReportArgs) -> anyhow::Result<()> {
    let (store, history) = remembered(&args.store)?;
    let at = chosen(&history, args.run.as_deref())?;
    let page = crate::explain::page::page(&Explainer::new(&store, &history), at);
    let path = match &args.output {
        Some(path) if path.as_os_str() == "-" => {
            print(&page);
            return Ok(());
        }
        Some(path) => {
            std::fs::write(path, page)
                .with_context(|| format!("cannot write {}", path.display()))?;
            path.clone()
        }
        None => {
            let mut file = tempfile::Builder::new()
                .prefix("pcache-report-")
                .suffix(".html")
                .tempfile()
                .context("cannot make a file")?;
            file.write_all(page.as_bytes())
                .context("cannot write the page")?;
            file.keep()?.1
        }
    };
    println!("{}", path.display());
    Ok(())
}

pub(super) fn graph(args: &GraphArgs) -> anyhow::Result<()> {
    let (store, history) = remembered(&args.choice.store)?;
    let at = chosen(&history, args.choice.run.as_deref())?;
    let run = &history.runs[at];
    let explainer = Explainer::new(&store, &history);
    if args.choice.json {
        let units: Vec<Value> = run
            .numbered()
            .map(|(number, unit)| {
                let explanation = explainer.explain((at, number));
                unit_json(run, number, unit, &explanation.reasons)
            })
            .collect();
        print_json(&json!({ "version": VERSION, "run": run_json(run), "units": units }));
        return Ok(());
    }
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
    // Depth first, without recursion: trees may be as deep as they like.
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
        if dull && is_leaf && !args.all {
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
    print(&text);
    Ok(())
}

pub(super) fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let (store, history) = remembered(&args.choice.store)?;
    let at = chosen(&history, args.choice.run.as_deref())?;
    let run = &history.runs[at];
    let Some(name) = &args.unit else {
        let graph_args = GraphArgs {
            choice: RunChoice {
                store: StoreArgs {
                    cache_dir: args.choice.store.cache_dir.clone(),
                },
                run: args.choice.run.clone(),
                json: args.choice.json,
            },
            all: true,
        };
        return graph(&graph_args);
    };
    let number = find_unit(run, name)?;
    let unit = run.unit(number).context("no such unit")?;
    let results = match unit.key {
        Some(key) => store.results(&WeakKey(key))?,
        None => Vec::new(),
    };
    let result = results
        .iter()
        .find(|result| result.serial == unit.serial)
        .or(results.last());
    let environment: Vec<String> = run
        .environments
        .get(unit.environment as usize)
        .into_iter()
        .flatten()
        .map(|text| secrets::show(run.text(*text)))
        .collect();
    if args.choice.json {
        let explainer = Explainer::new(&store, &history);
        let explanation = explainer.explain((at, number));
        print_json(&json!({
            "version": VERSION,
            "run": run_json(run),
            "unit": unit_json(run, number, unit, &explanation.reasons),
            "environment": environment,
            "facts": result.map(|result| result.facts.iter().map(|fact| {
                let (question, subject, answer) = fact_words(fact);
                json!({ "question": question, "subject": subject, "answer": answer })
            }).collect::<Vec<_>>()),
            "effects": result.and_then(|result| result.outcome.as_ref()).map(|outcome| {
                outcome.effects.iter().map(|effect| {
                    let (what, more) = effect_words(effect);
                    json!({
                        "effect": what,
                        "path": effect.path().display().to_string(),
                        "detail": more,
                    })
                }).collect::<Vec<_>>()
            }),
        }));
        return Ok(());
    }
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
        text.push_str(&format!("              {}\n", cut(&variable, 120)));
    }
    print(&text);
    Ok(())
}

/// Question, subject and answer of a fact.
fn fact_words(fact: &crate::model::fact::Fact) -> (&'static str, String, String) {
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
        Query::Xattr { path, .. } => ("attributes", path),
        Query::Order(paths) => return ("order", format!("{} files", paths.len()), answer),
        Query::LeftOut(part) => return ("left_out", format!("{part:?}").to_lowercase(), answer),
    };
    (question, path.display().to_string(), answer)
}

/// An effect's kind, and details about it.
fn effect_words(effect: &Effect) -> (&'static str, String) {
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
    }
}
