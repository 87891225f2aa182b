//! `why`, `log`, `show` and `graph`: past runs.
//!
//! The text is for display and may change; `docs/pcache-json.md` describes the JSON, which has a
//! version.

mod json;
mod query;
mod text;

use std::io::Write as _;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

pub(super) use self::json::{VERSION, unit_json};
use self::json::{result_json, run_json};
pub(super) use self::query::remembered;
use self::query::{chosen, find_unit};
use self::text::{graph_text, overview_text, result_text, run_line, why_text};
use super::StoreArgs;
use crate::explain::why::{Explainer, overview};
use crate::journal::secrets;
use crate::model::weak_key::WeakKey;

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

/// Prints a text; the reader may have closed the pipe.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn print_json(value: &Value) {
    print(&format!("{value:#}\n"));
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
    print(&why_text(run, (number, unit), &explanation, against));
    Ok(())
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
    print(&graph_text(&explainer, at, args.all));
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
        let mut value = json!({
            "version": VERSION,
            "run": run_json(run),
            "unit": unit_json(run, number, unit, &explanation.reasons),
            "environment": environment,
        });
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), result_json(result)) {
            value.extend(more);
        }
        print_json(&value);
        return Ok(());
    }
    print(&result_text(run, (number, unit), result, &environment));
    Ok(())
}
