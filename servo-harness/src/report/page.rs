//! The report as one page for a browser, which needs nothing else.

use std::fmt::Write as _;

use super::figures;
use crate::report::summary::{Row, Stats, Summary, seconds};

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
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escape(title)
    );
    let rows = &summary.tests;
    let odd: Vec<&Row> = rows
        .iter()
        .filter(|row| row.verdict() != "stable")
        .collect();
    let flaky: Vec<&Row> = rows
        .iter()
        .filter(|row| row.plain.is_flaky() || row.replay.is_some())
        .collect();
    head(&mut html, summary, &flaky);
    if !flaky.is_empty() {
        html += "<h2>How often tests come to what is expected</h2>\n";
        html += &figures::rates(&flaky[..flaky.len().min(DRAWN)])?;
        left_out(&mut html, flaky.len());
    }
    let timed: Vec<(&Row, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, row.slowdown()?)))
        .collect();
    if !timed.is_empty() {
        html += "<h2>What a replay takes</h2>\n";
        html += &figures::times(&timed[..timed.len().min(DRAWN)])?;
        left_out(&mut html, timed.len());
    }
    if !odd.is_empty() {
        html += "<h2>Tests that are not stable</h2>\n";
        table(&mut html, &odd);
    }
    outputs(&mut html, &odd);
    let stable: Vec<&Row> = rows
        .iter()
        .filter(|row| row.verdict() == "stable")
        .collect();
    if !stable.is_empty() {
        let _ = writeln!(
            html,
            "<h2>Stable tests</h2>\n<details><summary>{} tests</summary>",
            stable.len()
        );
        table(&mut html, &stable);
        html += "</details>\n";
    }
    html += "</body>\n</html>\n";
    Ok(html)
}

fn head(html: &mut String, summary: &Summary, flaky: &[&Row]) {
    let rows = &summary.tests;
    let runs: u64 = rows.iter().map(|row| row.plain.runs).sum();
    let replays: u64 = rows
        .iter()
        .filter_map(|row| row.replay.as_ref())
        .map(|stats| stats.runs)
        .sum();
    let _ = writeln!(
        html,
        "<p class=\"sum\">{runs} plain runs, {replays} replays. Intervals are Wilson's, 95 %; p-values \
         are Fisher's, two-sided, corrected for the number of tests by Holm's method.{}{}</p>",
        if summary.complete {
            ""
        } else {
            " <b>Not complete.</b>"
        },
        if summary.isolated {
            ""
        } else {
            " Runs were isolated as well as process groups allow."
        },
    );
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict() == verdict).count();
    let tiles = [
        (rows.len(), "tests"),
        (count("stable"), "stable"),
        (flaky.len(), "intermittent"),
        (count("cured"), "cured by replay"),
        (count("always fails"), "always fail"),
    ];
    *html += "<div class=\"tiles\">";
    for (number, text) in tiles {
        let _ = write!(
            html,
            "<div class=\"tile\"><b>{number}</b><span>{text}</span></div>"
        );
    }
    *html += "</div>\n";
}

fn left_out(html: &mut String, count: usize) {
    if count > DRAWN {
        let _ = writeln!(html, "<p>{} more are in the table.</p>", count - DRAWN);
    }
}

fn table(html: &mut String, rows: &[&Row]) {
    *html += "<table><tr><th>test</th><th></th><th>expected</th><th>95 %</th><th>unexpected</th>\
              <th>crash</th><th>timeout</th><th>median</th><th>p</th><th>verdict</th></tr>\n";
    for row in rows {
        let class = match row.verdict() {
            "cured" | "stable" => "v cured",
            _ => "v bad",
        };
        line(
            html,
            &escape(&row.test),
            "plain",
            &row.plain,
            "",
            class,
            row.verdict(),
        );
        if let Some(replay) = &row.replay {
            let p = row.p.map_or_else(String::new, |p| format!("{p:.1e}"));
            let size = row.tamed.as_ref().map_or_else(String::new, |tamed| {
                format!("{}, {} bytes", tamed.engine, tamed.bytes)
            });
            line(html, &escape(&size), "replay", replay, &p, "", "");
        }
        if let Some(problem) = row.tamed.as_ref().and_then(|tamed| tamed.problem.as_ref()) {
            let _ = writeln!(html, "<tr><td colspan=\"10\">{}</td></tr>", escape(problem));
        }
    }
    *html += "</table>\n";
}

fn line(
    html: &mut String,
    name: &str,
    kind: &str,
    stats: &Stats,
    p: &str,
    class: &str,
    verdict: &str,
) {
    let _ = writeln!(
        html,
        "<tr><td>{name}</td><td>{kind}</td><td>{} of {}</td><td>{:.1}–{:.1}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{p}</td><td class=\"{class}\">{verdict}</td></tr>",
        stats.expected,
        stats.runs,
        stats.low * 100.0,
        stats.high * 100.0,
        stats.unexpected,
        stats.crash,
        stats.timeout,
        seconds(stats.median_seconds),
    );
}

fn outputs(html: &mut String, rows: &[&Row]) {
    let with: Vec<_> = rows.iter().filter(|row| !row.outputs.is_empty()).collect();
    if with.is_empty() {
        return;
    }
    *html += "<h2>What they write when they fail</h2>\n";
    for row in with {
        let _ = writeln!(html, "<details><summary>{}</summary>", escape(&row.test));
        for output in &row.outputs {
            let _ = writeln!(html, "<pre>{}</pre>", escape(output));
        }
        *html += "</details>\n";
    }
}

/// Text as it may stand in a page.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            c => escaped.push(c),
        }
    }
    escaped
}
