//! The report as one HTML page without external files.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figures;
use crate::report::summary::{Row, Stats, Summary, seconds};
use crate::store::journal::Disturbed;

/// In a figure, at most so many tests.
const DRAWN: usize = 120;

const STYLE: &str = "\
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 980px; margin: 2.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.4rem; }
p.sum { color: #555; margin-top: 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.4rem 0; }
.tile { border: 1px solid #ddd; border-radius: 8px; padding: .5rem 1rem; min-width: 6.5rem; }
.tile b { display: block; font-size: 1.6rem; line-height: 1.2; } .tile span { color: #666; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
th { color: #666; font-weight: 600; }
td.v { font-weight: 600; } .cured { color: #1a7f45; } .bad { color: #b3401f; }
svg { max-width: 100%; height: auto; }
details { margin: .4rem 0; } summary { cursor: pointer; }
pre { background: #f6f6f6; padding: .7rem; overflow: auto; font-size: 12px; border-radius: 6px; }
";

/// The page.
///
/// # Errors
/// If a figure cannot be drawn.
pub(crate) fn page(title: &str, summary: &Summary) -> Result<String, String> {
    let (stable, odd): (Vec<&Row>, Vec<&Row>) = summary
        .tests
        .iter()
        .partition(|row| row.verdict() == "stable");
    let flaky: Vec<&Row> = summary
        .tests
        .iter()
        .filter(|row| row.plain.is_flaky() || row.replay.is_some())
        .collect();
    let timed: Vec<(&Row, f64)> = summary
        .tests
        .iter()
        .filter_map(|row| Some((row, row.slowdown()?)))
        .collect();
    let rates = match flaky.is_empty() {
        true => None,
        false => Some(figures::rates(&flaky[..flaky.len().min(DRAWN)])?),
    };
    let times = match timed.is_empty() {
        true => None,
        false => Some(figures::times(&timed[..timed.len().min(DRAWN)])?),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (overview(summary, flaky.len()))
                @if let Some(figure) = rates {
                    h2 { "Rate of expected outcomes" }
                    (PreEscaped(figure))
                    (left_out(flaky.len()))
                }
                @if let Some(figure) = times {
                    h2 { "Time of a replay" }
                    (PreEscaped(figure))
                    (left_out(timed.len()))
                }
                @if !odd.is_empty() {
                    h2 { "Tests that are not stable" }
                    (table(&odd))
                }
                (outputs(&odd))
                @if !stable.is_empty() {
                    h2 { "Stable tests" }
                    details {
                        summary { (stable.len()) " tests" }
                        (table(&stable))
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

fn overview(summary: &Summary, flaky: usize) -> Markup {
    let rows = &summary.tests;
    let runs: u64 = rows.iter().map(|row| row.plain.runs).sum();
    let replays: u64 = rows
        .iter()
        .filter_map(|row| row.replay.as_ref())
        .map(|stats| stats.runs)
        .sum();
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict() == verdict).count();
    let tiles = [
        (rows.len(), "tests"),
        (count("stable"), "stable"),
        (flaky, "intermittent"),
        (count("cured"), "cured by replay"),
        (count("perhaps cured"), "perhaps cured"),
        (count("always fails"), "always fail"),
    ];
    html! {
        p.sum {
            (runs) " plain runs, " (replays) " replays. Intervals are Wilson's, 95 %; p-values \
             are Fisher's, two-sided, corrected for the number of tests by Holm's method."
            @if !summary.complete { " " b { "Not complete." } }
            @if !summary.isolated { " Runs were isolated by process groups only." }
        }
        div.tiles {
            @for (number, text) in tiles {
                div.tile { b { (number) } span { (text) } }
            }
        }
    }
}

fn left_out(count: usize) -> Markup {
    html! {
        @if count > DRAWN { p { (count - DRAWN) " more tests are in the table." } }
    }
}

const COLUMNS: [&str; 10] = [
    "test",
    "",
    "expected",
    "95 %",
    "unexpected",
    "crash",
    "timeout",
    "median",
    "p",
    "verdict",
];

fn table(rows: &[&Row]) -> Markup {
    html! {
        table {
            tr { @for column in COLUMNS { th { (column) } } }
            @for row in rows { (line(row)) }
        }
    }
}

fn line(row: &Row) -> Markup {
    let class = match row.verdict() {
        _ if row.is_settled() => "v cured",
        _ => "v bad",
    };
    let size = row.tamed.as_ref().map_or_else(String::new, |tamed| {
        format!("{}, {} bytes", tamed.engine, tamed.bytes)
    });
    let p = row.p.map_or_else(String::new, |p| format!("{p:.1e}"));
    html! {
        tr {
            td { (row.test) }
            td { "plain" }
            (figures_of(&row.plain))
            td {}
            td class=(class) { (row.verdict()) }
        }
        @if let Some(replay) = &row.replay {
            tr {
                td { (size) }
                td { "replay" }
                (figures_of(replay))
                td { (p) }
                td {}
            }
        }
        @for line in row.disturbed.iter().flat_map(Disturbed::lines).chain(row.engines()) {
            tr { td colspan=(COLUMNS.len()) { (line) } }
        }
    }
}

fn figures_of(stats: &Stats) -> Markup {
    html! {
        td { (stats.expected) " of " (stats.runs) }
        td { (format!("{:.1}–{:.1}", stats.low * 100.0, stats.high * 100.0)) }
        td { (stats.unexpected) }
        td { (stats.crash) }
        td { (stats.timeout) }
        td { (seconds(stats.median_seconds)) }
    }
}

fn outputs(rows: &[&Row]) -> Markup {
    let with: Vec<_> = rows.iter().filter(|row| !row.outputs.is_empty()).collect();
    html! {
        @if !with.is_empty() {
            h2 { "Output of failing runs" }
            @for row in with {
                details {
                    summary { (row.test) }
                    @for output in &row.outputs { pre { (output) } }
                }
            }
        }
    }
}
