//! `cargo reprise coverage`: lists which crates of a project are recorded, and which are not.
//!
//! Replaced crates are recorded. Crates that are known to order threads in other ways are not
//! recorded, and neither are uses of `std` in the source of any package
//! ([`std_names`](super::std_names)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cargo_metadata::{Metadata, Package, TargetKind};
use serde::Serialize;

use super::cargo::{Project, Shared};
use super::metadata::{in_programs, replaced_by};
use super::{recorded_std, std_names};
use crate::reprise::patch::crates;
use crate::reprise::patch::records_waits;

/// Crates by which threads or tasks synchronise, and whose order is not recorded.
const UNCOVERED: &[&str] = &[
    "async-channel",
    "async-executor",
    "async-lock",
    "async-std",
    "event-listener",
    "flume",
    "futures-channel",
    "futures-executor",
    "kanal",
    "loole",
    "postage",
    "smol",
    "spin",
    "thingbuf",
    "tokio",
];

/// Those of [`UNCOVERED`] whose tasks wander from thread to thread.
const EXECUTORS: &[&str] = &["async-executor", "async-std", "smol", "tokio"];

/// Options of `cargo reprise coverage`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// Options of cargo, such as --manifest-path
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO OPTIONS"
    )]
    cargo: Vec<String>,
}

/// The coverage of one package.
#[derive(Debug, Serialize)]
struct Part {
    package: String,
    version: String,
    /// Whether it is the user's, and no dependency.
    own: bool,
    recorded: bool,
    /// The items of it that are not recorded: `None` if that is its whole purpose.
    not_recorded: Option<BTreeSet<&'static str>>,
}

/// The coverage of the packages that the project's programs and tests are made of: those
/// of which there is something to say.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Coverage(Vec<Part>);

impl Coverage {
    /// The coverage where these crates are left as they are; with `records_std`, that of a build
    /// with a `std` that records.
    pub(crate) fn of(metadata: &Metadata, except: &[String], records_std: bool) -> Self {
        let mut parts: Vec<_> = in_programs(metadata)
            .into_iter()
            .filter_map(|package| part(package, metadata, except, records_std))
            .collect();
        parts.sort_by(|a, b| {
            (!a.own, &a.package, &a.version).cmp(&(!b.own, &b.package, &b.version))
        });
        Coverage(parts)
    }

    /// In a line or two, what is not recorded.
    pub(crate) fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let whole: Vec<_> = self
            .0
            .iter()
            .filter(|part| part.is_partly() || !part.recorded && part.not_recorded.is_none())
            .map(|part| {
                let but = if part.is_partly() {
                    " (but for its tasks, `tokio::sync` and timers)"
                } else {
                    ""
                };
                format!("{} {}{but}", part.package, part.version)
            })
            .collect();
        if !whole.is_empty() {
            lines.push(format!(
                "dependencies that are not recorded: {}",
                whole.join(", ")
            ));
        }
        let (own, others): (Vec<_>, Vec<_>) = self
            .0
            .iter()
            .filter(|part| part.not_recorded.is_some())
            .partition(|part| part.own);
        let mut places: Vec<_> = own
            .iter()
            .map(|part| format!("{} ({})", part.package, part.names()))
            .collect();
        if !others.is_empty() {
            places.push(crate::plural::counted(others.len() as u64, "other package"));
        }
        if !places.is_empty() {
            lines.push(format!(
                "locks and channels of std, which are not recorded, are used in {}; \
                 `cargo reprise coverage` lists them",
                places.join(", ")
            ));
        }
        lines
    }
}

impl Part {
    /// Whether only its tasks are recorded.
    fn is_partly(&self) -> bool {
        self.recorded && self.package == crates::EXECUTOR
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.not_recorded.iter().flatten().copied().collect();
        names.join(", ")
    }
}

fn part(
    package: &Package,
    metadata: &Metadata,
    except: &[String],
    records_std: bool,
) -> Option<Part> {
    let recorded = replaced_by(package, metadata, except).is_some();
    let own = package.source.is_none();
    let is_uncovered =
        UNCOVERED.contains(&package.name.as_str()) || crates::is_known(&package.name) && !recorded;
    let has_recorded_std = records_std && !recorded_std::has_original(&package.name);
    let names = if recorded || is_uncovered || has_recorded_std {
        None
    } else {
        Some(names_in(package, own)).filter(|names| !names.is_empty())
    };
    (recorded || is_uncovered || names.is_some()).then(|| Part {
        package: package.name.to_string(),
        version: package.version.to_string(),
        own,
        recorded,
        not_recorded: names,
    })
}

/// The items of `std` that the sources of a package name: those of its library, and of the user's own
/// packages all but build scripts.
fn names_in(package: &Package, own: bool) -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for_each_source(package, own, &mut |text| {
        names.extend(std_names::ordering(text, own).unwrap_or_default());
    });
    names
}

/// The inputs that the project's own packages name and that are not recorded: in
/// words, and by which names.
pub(crate) fn inputs(metadata: &Metadata) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut inputs: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for package in in_programs(metadata) {
        if package.source.is_none() {
            for_each_source(package, true, &mut |text| {
                for (name, what) in std_names::inputs(text) {
                    inputs.entry(what).or_default().insert(name);
                }
            });
        }
    }
    inputs
}

/// Calls `f` with the text of each file of the package's library, and of all its programs and
/// tests if it is the user's `own`.
fn for_each_source(package: &Package, own: bool, f: &mut dyn FnMut(&str)) {
    let root = package.manifest_path.as_std_path().parent();
    for target in &package.targets {
        let is = |kind| target.kind.contains(&kind);
        let is_library = ![
            TargetKind::Bin,
            TargetKind::Test,
            TargetKind::Bench,
            TargetKind::Example,
            TargetKind::CustomBuild,
        ]
        .into_iter()
        .any(is);
        let is_in = is_library || own && (is(TargetKind::Bin) || is(TargetKind::Test));
        let path = target.src_path.as_std_path();
        match path.parent().filter(|_| is_in) {
            // What lies beside it may be anything.
            Some(dir) if Some(dir) == root => read(path, f),
            Some(dir) => read_below(dir, f),
            None => {}
        }
    }
}

fn read_below(dir: &Path, f: &mut dyn FnMut(&str)) {
    // What cannot be read has no names: cargo says so when it comes to that.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => read_below(&path, f),
            Ok(_) if path.extension().is_some_and(|ext| ext == "rs") => read(&path, f),
            _ => {}
        }
    }
}

fn read(path: &Path, f: &mut dyn FnMut(&str)) {
    if let Ok(text) = fs::read_to_string(path) {
        f(&text);
    }
}

/// Prints it.
///
/// # Errors
/// If there is no project, or its dependencies cannot be told.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut rest = args.cargo.clone();
    let project = Project::find(Shared::take(&mut rest))?;
    let coverage = project.coverage(&project.plain()?);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&coverage)?);
        return Ok(());
    }
    for part in &coverage.0 {
        let what = match &part.not_recorded {
            None if part.is_partly() && !records_waits() => {
                "partly recorded: its tasks' use of recorded crates is; its own channels, locks, \
                 timers, `select!` and I/O are not"
                    .to_owned()
            }
            None if part.is_partly() => {
                "partly recorded: its I/O and signals are not, nor `OnceCell` and `SetOnce`"
                    .to_owned()
            }
            None if part.recorded => "recorded".to_owned(),
            None if EXECUTORS.contains(&part.package.as_str()) => {
                "not recorded; the actions of its tasks are attributed to the threads that run them"
                    .to_owned()
            }
            None => "not recorded".to_owned(),
            Some(_) => format!("not recorded: std's {}", part.names()),
        };
        println!(
            "{:32}  {what}",
            format!("{} {}", part.package, part.version)
        );
    }
    println!(
        "\nNot searched for: atomics, time, files, the network, and uses without a name in the source. \
         A name that was found may belong to code that is not built or never called."
    );
    Ok(())
}
