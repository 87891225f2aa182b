//! Renders the report of a run as one HTML page, which loads nothing from elsewhere.
//!
//! The page contains the same [`Overview`] and explanations as `pcache why`. Its only script
//! filters the tree.

mod timeline;

use std::fmt::Write as _;

use crate::engine::report::seconds;
use crate::explain::why::{Cause, Explainer, Kind, Overview, advice, overview};
use crate::journal::{Entry, Run};
use crate::model::fate::Fate;
use crate::platform::clock::local;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = r"
const box=document.getElementById('find');
box.addEventListener('input',()=>{const text=box.value.toLowerCase();
for(const item of document.querySelectorAll('.tree .leaf,.tree summary')){
const seen=!text||item.textContent.toLowerCase().includes(text);
item.classList.toggle('gone',!seen&&item.matches('.leaf'));
if(seen&&text)for(let up=item.parentElement;up;up=up.parentElement)if(up.tagName=='DETAILS')up.open=true;}});
";
/// Maximal number of losses shown.
const LOSSES: usize = 12;
/// Maximal number of units named for a reason.
const NAMED: usize = 40;

/// Returns, for each number, whether the unit is shown without children: it has none, except parts
/// of itself.
fn wholes(run: &Run) -> Vec<bool> {
    let mut whole = vec![true; run.units.len() + 1];
    for unit in &run.units {
        let is_part = is_part(unit);
        if let Some(above) = whole.get_mut(unit.above as usize) {
            *above &= is_part;
        }
    }
    for (number, unit) in run.numbered() {
        whole[number as usize] &= !is_part(unit);
    }
    whole
}

/// Whether a unit is looked up only together with its parent.
fn is_part(unit: &Entry) -> bool {
    matches!(&unit.fate, Some(Fate::NotStored { reason }) if Kind::of_uncacheable(reason) == Kind::Internal)
}

/// The colour of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Hit,
    Miss,
    Never,
    Short,
}

impl Look {
    fn of(unit: &Entry) -> Self {
        match &unit.fate {
            Some(Fate::Hit { .. }) => Self::Hit,
            Some(Fate::Stored) => Self::Miss,
            Some(Fate::NotStored { reason }) => match Kind::of_uncacheable(reason) {
                Kind::Short | Kind::Internal => Self::Short,
                _ => Self::Never,
            },
            None => Self::Never,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Never => "never",
            Self::Short => "short",
        }
    }
}

/// Returns the page of the run with this index in the history.
pub fn page(all: &Explainer<'_>, at: usize) -> String {
    let Some(run) = all.history.runs.get(at) else {
        return String::new();
    };
    let found = overview(all, at);
    let base = run.unit(1).map_or(0, |unit| unit.cwd);
    let base = String::from_utf8_lossy(run.text(base)).into_owned();
    let mut out = String::new();
    let command = run
        .unit(1)
        .map_or_else(String::new, |unit| run.command(unit, 200));
    let _ = write!(
        out,
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>pcache: {0}</title><style>{STYLE}</style><main>\
         <h1 class=mono>{0}</h1><div class=soft>run {1} · {2} · in <span class=mono>{3}</span></div>",
        escape(&command),
        run.id(),
        local(run.began),
        escape(&base),
    );
    tiles(run, &found, &mut out);
    reasons(run, &found, &base, &mut out);
    losses(run, &mut out);
    out.push_str("<h2>Timeline</h2><div class=card style=\"padding:12px 16px\">");
    timeline::draw(run, &mut out);
    out.push_str("</div>");
    tree(all, at, run, &base, &mut out);
    let _ = writeln!(
        out,
        "<footer>pcache {} · times are of this run; of what was skipped, of the run that was recorded</footer>\
         </main><script>{SCRIPT}</script></html>",
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn tiles(run: &Run, found: &Overview, out: &mut String) {
    let inside: u64 = run
        .units
        .iter()
        .map(|unit| match unit.fate {
            Some(Fate::Hit { units, .. }) => u64::from(units),
            _ => 0,
        })
        .sum();
    let saved = run.saved_us();
    let tile = |value: String, what: &str| {
        format!("<div class=tile><b>{value}</b><span>{what}</span></div>")
    };
    out.push_str("<div class=tiles>");
    out.push_str(&tile(seconds(run.wall_us as i64), "this run"));
    let (amount, what) = if saved >= 0 {
        (saved, "saved by skipping")
    } else {
        (-saved, "lost by skipping")
    };
    out.push_str(&tile(seconds(amount), what));
    out.push_str(&tile(inside.to_string(), "programs skipped"));
    out.push_str(&tile(
        (found.ran + found.short + found.internal).to_string(),
        "programs run",
    ));
    out.push_str("</div>");
    // Time of units without children, which adds up.
    let mut sums = [0_u64; 4];
    let whole = wholes(run);
    for (number, unit) in run.numbered() {
        let time = match unit.fate {
            _ if !whole[number as usize] => continue,
            Some(Fate::Hit { recorded_us, .. }) => recorded_us,
            _ => unit.wall_us,
        };
        sums[Look::of(unit) as usize] += time;
    }
    let total: u64 = sums.iter().sum::<u64>().max(1);
    let names = [
        "skipped",
        "run, and stored for the next time",
        "never stored",
        "too short to cache",
    ];
    out.push_str("<div class=share>");
    let looks = [Look::Hit, Look::Miss, Look::Never, Look::Short];
    for (look, sum) in looks.iter().zip(sums) {
        if sum > 0 {
            let share = sum as f64 * 100.0 / total as f64;
            let _ = write!(
                out,
                "<i class={} style=\"width:{share:.2}%\"></i>",
                look.class()
            );
        }
    }
    out.push_str("</div><div class=key>");
    for ((look, sum), name) in looks.iter().zip(sums).zip(names) {
        let _ = write!(
            out,
            "<span><i class={}></i>{name}: {}</span>",
            look.class(),
            seconds(sum as i64)
        );
    }
    out.push_str("</div>");
}

fn reasons(run: &Run, found: &Overview, base: &str, out: &mut String) {
    out.push_str("<h2>Why programs ran</h2><div class=card>");
    if found.reasons.is_empty() {
        out.push_str(
            "<div class=row><div>Everything was skipped that is worth a lookup.</div></div>",
        );
    }
    let most = found.reasons.iter().map(|group| group.wall_us).max();
    let most = most.unwrap_or(0).max(1);
    for group in &found.reasons {
        let reason = &group.reason;
        let look = if reason.kind == Kind::Uncacheable {
            Look::Never
        } else {
            Look::Miss
        };
        let _ = write!(
            out,
            "<details class=row><summary style=\"display:contents\"><div>{}",
            escape(&reason.headline(base))
        );
        if let Some(detail) = reason.detail() {
            let _ = write!(out, " <span class=\"soft mono\">{}</span>", escape(&detail));
        }
        let count = group.units.len();
        let _ = write!(
            out,
            "<p>{count} program{}",
            if count == 1 { "" } else { "s" }
        );
        if let Some(Cause::Outside {
            modified: Some(time),
        }) = reason.cause
        {
            let _ = write!(out, " · changed outside of pcache, {}", local(time));
        }
        out.push_str("</p></div>");
        meter(group.wall_us, most, look, out);
        out.push_str("</summary><div style=\"grid-column:1/-1\">");
        for number in group.units.iter().take(NAMED) {
            if let Some(unit) = run.unit(*number) {
                let _ = write!(
                    out,
                    "<div class=\"mono soft\">{number}: {}</div>",
                    escape(&run.command(unit, 160))
                );
            }
        }
        if count > NAMED {
            let _ = write!(out, "<div class=soft>and {} more</div>", count - NAMED);
        }
        out.push_str("</div></details>");
    }
    out.push_str("</div>");
}

fn meter(value: u64, most: u64, look: Look, out: &mut String) {
    if value == 0 {
        // Counted in another row.
        out.push_str("<div></div><div class=num></div>");
        return;
    }
    let share = value as f64 * 100.0 / most as f64;
    let _ = write!(
        out,
        "<div class=meter><i class={} style=\"width:{share:.1}%\"></i></div><div class=num>{}</div>",
        look.class(),
        seconds(value as i64)
    );
}

/// Lists units that are never skipped, with the source of the reason.
fn losses(run: &Run, out: &mut String) {
    let reason = |unit: &Entry| match &unit.fate {
        Some(Fate::NotStored { reason }) if Look::of(unit) == Look::Never => Some(reason.clone()),
        _ => None,
    };
    // A reason caused by a child is shown there.
    let mut from_below = vec![false; run.units.len() + 1];
    for unit in &run.units {
        let above = run.unit(unit.above);
        if let (Some(mine), Some(above)) = (reason(unit), above)
            && reason(above).as_ref() == Some(&mine)
        {
            from_below[unit.above as usize] = true;
        }
    }
    let mut worst: Vec<(u64, u32, String)> = run
        .numbered()
        .filter(|(number, _)| !from_below[*number as usize])
        .filter_map(|(number, unit)| {
            // All ancestors that it makes uncacheable run again with it.
            let mut cost = unit.wall_us;
            let mine = reason(unit)?;
            let mut above = unit.above;
            for _ in 0..run.units.len() {
                match run.unit(above) {
                    Some(outer) if reason(outer).as_ref() == Some(&mine) => {
                        cost = cost.max(outer.wall_us);
                        above = outer.above;
                    }
                    _ => break,
                }
            }
            Some((cost, number, mine))
        })
        .collect();
    worst.sort_by_key(|(cost, number, _)| (std::cmp::Reverse(*cost), *number));
    if worst.is_empty() {
        return;
    }
    out.push_str("<h2>Biggest losses: never skipped</h2><div class=card>");
    let most = worst.first().map_or(1, |(cost, ..)| (*cost).max(1));
    let mut advised: Vec<&'static str> = Vec::new();
    for (cost, number, reason) in worst.iter().take(LOSSES) {
        let Some(unit) = run.unit(*number) else {
            continue;
        };
        let _ = write!(
            out,
            "<div class=row><div><span class=mono>{}</span><p>{}</p>",
            escape(&run.command(unit, 120)),
            escape(reason)
        );
        if let Some(advice) = advice::of(reason)
            && !advised.contains(&advice)
        {
            advised.push(advice);
            let _ = write!(out, "<p class=advice>{advice}</p>");
        }
        out.push_str("</div>");
        meter(*cost, most, Look::Never, out);
        out.push_str("</div>");
    }
    out.push_str("</div><p class=soft>The time is that of the outermost program that is not skipped because of it.</p>");
}

/// Renders all units as a tree that can be folded.
fn tree(all: &Explainer<'_>, at: usize, run: &Run, base: &str, out: &mut String) {
    enum Step {
        Unit(u32),
        Close,
    }
    let mut below: Vec<Vec<u32>> = vec![Vec::new(); run.units.len() + 1];
    for (number, unit) in run.numbered() {
        if unit.above < number {
            below[unit.above as usize].push(number);
        }
    }
    out.push_str(
        "<h2>All programs</h2><input id=find placeholder=\"find a program, a file, a reason\"><div class=\"card tree\">",
    );
    let mut open: Vec<Step> = below[0].iter().rev().copied().map(Step::Unit).collect();
    while let Some(step) = open.pop() {
        let Step::Unit(number) = step else {
            out.push_str("</details>");
            continue;
        };
        let Some(unit) = run.unit(number) else {
            continue;
        };
        let look = Look::of(unit);
        let why = match &unit.fate {
            Some(Fate::Hit {
                recorded_us, units, ..
            }) => format!(
                "{units} skipped, {} when it ran",
                seconds(*recorded_us as i64)
            ),
            _ => {
                let explanation = all.explain((at, number));
                explanation
                    .reasons
                    .first()
                    .map_or_else(String::new, |reason| reason.headline(base))
            }
        };
        let line = format!(
            "<span class=n>{number}</span><span class=t>{}</span><i class=\"dot {}\"></i><span class=cmd>{}</span><span class=why>{}</span>",
            seconds(unit.wall_us as i64),
            look.class(),
            escape(&run.command(unit, 160)),
            escape(&why),
        );
        let inside = &below[number as usize];
        if inside.is_empty() {
            let _ = write!(out, "<div class=leaf>{line}</div>");
        } else {
            // Large trees start folded.
            let unfolded = if run.units.len() <= 400 || unit.above == 0 {
                " open"
            } else {
                ""
            };
            let _ = write!(out, "<details{unfolded}><summary>{line}</summary>");
            open.push(Step::Close);
            open.extend(inside.iter().rev().copied().map(Step::Unit));
        }
    }
    out.push_str("</div>");
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Begun, Collector, History, Mode};
    use crate::model::fate::Fate;
    use crate::model::miss::Missed;
    use crate::model::outcome::Ending;
    use crate::store::Store;

    #[test]
    fn a_page_shows_each_unit_and_escapes_commands() {
        let mut collector = Collector::new();
        let argv = |text: &str| vec![text.as_bytes().to_vec()];
        let make = collector.begin(0, &argv("make"), Begun::default(), Missed::New);
        let date = collector.begin(make, &argv("date"), Begun::default(), Missed::New);
        let hit = collector.begin(make, &argv("<script>&\""), Begun::default(), Missed::Not);
        let reason = "reads the time of day".to_owned();
        let never = Fate::NotStored { reason };
        collector.end(make, 5000, never.clone(), 0);
        collector.end(date, 4000, never, 0);
        let skipped = Fate::Hit {
            recorded_us: 9_000_000,
            took_us: 100,
            units: 7,
        };
        collector.end(hit, 100, skipped, 0);
        let run = collector.finish(Mode::default(), Ending::Exited(0));
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let history = History {
            runs: vec![run],
            damaged: 0,
        };
        let page = page(&Explainer::new(&store, &history), 0);
        assert!(page.contains("&lt;script&gt;&amp;&quot;"), "{page}");
        assert_eq!(page.matches("<script>").count(), 1, "{page}");
        assert!(page.contains("SOURCE_DATE_EPOCH"), "{page}");
        assert_eq!(
            page.matches("<details").count(),
            page.matches("</details>").count()
        );
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
