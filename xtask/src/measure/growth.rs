//! How the cost of a unit and the tracer's memory grow with the number of units.
//!
//! A shell starts a program that does nothing, many times, plainly and under a
//! pcache with an empty store. What the second takes longer, divided by the number of
//! programs, is what one costs. The sides take turns. The plain one is kept on one CPU: there
//! a shell and what it waits for are quicker than where the scheduler puts them, and there
//! pcache keeps them as well.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use plotters::prelude::*;
use serde::Serialize;

use crate::measure::workloads::measure::{Cost, measure};
use crate::support::median::median;
use crate::support::pcache::{Build, build};

/// Options of `cargo xtask growth`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many units; may be given many times, ascending.
    #[arg(long, value_name = "N", default_values_t = [100, 300, 1000, 3000, 5000, 10_000])]
    units: Vec<u32>,
    /// How many rounds for each, or more where there are few units.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Write all points to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw them into this file (SVG).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The pcache to measure; built from the workspace when absent.
    #[arg(long, value_name = "PATH")]
    pcache: Option<PathBuf>,
}

/// As many units are measured for each point, at least.
const ENOUGH: u32 = 6000;

/// The measurement for one number of units.
#[derive(Debug, Serialize)]
struct Point {
    units: u32,
    /// Medians, in µs of CPU and wall time for each unit.
    cpu_us: f64,
    wall_us: f64,
    /// Most memory of any process so far, in MiB: that of the tracer.
    peak_mib: f64,
}

/// Measures, prints a table, and draws.
///
/// # Errors
///
/// When a command does not run, or a file cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let pcache = match &args.pcache {
        Some(pcache) => pcache.clone(),
        None => build(Build::Release)?,
    };
    let dir = tempfile::tempdir().context("a directory")?;
    let mut points = Vec::new();
    println!("| units | CPU time of each | wall time of each | memory |");
    println!("|---|---|---|---|");
    for &units in &args.units {
        // Each has an argument of its own: one that happened to take long would be stored,
        // and those after it skipped.
        let script = format!("i=0; while [ $i -lt {units} ]; do i=$((i+1)); /bin/true $i -; done");
        let mut costs = Vec::new();
        let rounds = args.repeat.max(ENOUGH.div_ceil(units.max(1)) as usize);
        for round in 0..rounds {
            let store = dir.path().join(format!("{units}-{round}"));
            let plain = on_one_cpu(|| side(Command::new("sh").args(["-c", &script])))??;
            let traced = side(
                Command::new(&pcache)
                    .arg("--cache-dir")
                    .arg(&store)
                    .args(["--quiet", "--", "sh", "-c", &script]),
            )?;
            let each = |more: f64| more * 1e6 / f64::from(units);
            costs.push((each(traced.cpu - plain.cpu), each(traced.wall - plain.wall)));
            // Results of thousands of units are not needed any more.
            let _ = std::fs::remove_dir_all(&store);
        }
        let point = Point {
            units,
            cpu_us: median(costs.iter().map(|(cpu, _)| *cpu).collect()),
            wall_us: median(costs.iter().map(|(_, wall)| *wall).collect()),
            peak_mib: peak()?,
        };
        println!(
            "| {} | {:.0} µs | {:.0} µs | {:.0} MiB |",
            point.units, point.cpu_us, point.wall_us, point.peak_mib
        );
        points.push(point);
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&points)?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(path) = &args.plot {
        plot(path, &points).map_err(|error| anyhow::anyhow!("drawing: {error}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does something on the CPU that this thread happens to run on.
fn on_one_cpu<T>(work: impl FnOnce() -> T) -> anyhow::Result<T> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
    let all = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one)?;
    let result = work();
    sched_setaffinity(None, &all)?;
    Ok(result)
}

fn side(command: &mut Command) -> anyhow::Result<Cost> {
    let (cost, succeeded) = measure(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    ensure!(succeeded, "{:?} failed", command.get_program());
    Ok(cost)
}

/// The most memory that any child, or what it started, had resident, in MiB.
fn peak() -> anyhow::Result<f64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for memory")?;
    Ok(usage.max_rss() as f64 / 1024.0)
}

/// Draws the cost of each unit against their number.
fn plot(path: &Path, points: &[Point]) -> Result<(), Box<dyn std::error::Error>> {
    let costs = || {
        points
            .iter()
            .flat_map(|point| [point.cpu_us, point.wall_us])
    };
    let (least, most) = (costs().fold(0.0, f64::min), costs().fold(1.0, f64::max));
    let (from, to) = (points.first(), points.last());
    let from = from.map_or(1.0, |point| f64::from(point.units));
    let to = to
        .map_or(2.0, |point| f64::from(point.units))
        .max(from + 1.0);
    let area = SVGBackend::new(path, (720, 320)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d((from..to).log_scale(), 1.25 * least..1.25 * most)?;
    chart
        .configure_mesh()
        .x_desc("units")
        .y_desc("µs more for each")
        .draw()?;
    type CostOf = fn(&Point) -> f64;
    let series: [(&str, RGBColor, CostOf); 2] = [
        ("CPU time", BLUE, |point| point.cpu_us),
        ("wall time", RED, |point| point.wall_us),
    ];
    for (name, color, cost) in series {
        let at = |point: &Point| (f64::from(point.units), cost(point));
        let dots = points
            .iter()
            .map(|point| Circle::new(at(point), 3, color.filled()));
        chart.draw_series(dots)?;
        chart
            .draw_series(LineSeries::new(points.iter().map(at), &color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}
