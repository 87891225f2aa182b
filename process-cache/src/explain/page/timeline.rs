//! Draws when programs ran, with one lane per concurrent program.

use std::fmt::Write as _;

use super::{Look, escape};
use crate::engine::report::seconds;
use crate::journal::Run;

const WIDTH: f64 = 1056.0;
const LANE: f64 = 22.0;
const TOP: f64 = 18.0;
/// Maximal number of lanes; further programs share the last one.
const MOST: usize = 24;

/// Draws units without children: other units mostly wait for their children.
pub(super) fn draw(run: &Run, out: &mut String) {
    let whole = super::wholes(run);
    let end = |at: usize| {
        let unit = &run.units[at];
        unit.began_us.saturating_add(unit.wall_us)
    };
    let mut bars: Vec<usize> = (0..run.units.len()).filter(|&at| whole[at + 1]).collect();
    bars.sort_by_key(|&at| (run.units[at].began_us, at));
    let total = bars.iter().map(|&at| end(at)).max().unwrap_or(0);
    let total = total.max(run.wall_us).max(1);
    let scale = WIDTH / total as f64;
    // Each unit goes into the first free lane.
    let mut lanes: Vec<u64> = Vec::new();
    let mut places = Vec::with_capacity(bars.len());
    for &at in &bars {
        let began = run.units[at].began_us;
        let free = lanes.iter().position(|&busy| busy <= began);
        let lane = free.unwrap_or_else(|| {
            if lanes.len() < MOST {
                lanes.push(0);
            }
            lanes.len() - 1
        });
        lanes[lane] = end(at).max(lanes[lane]);
        places.push((at, lane));
    }
    let height = TOP + LANE * lanes.len().max(1) as f64 + 4.0;
    let _ = write!(out, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=img>");
    let step = round_step(total / 8);
    let mut at = 0;
    while at <= total {
        let x = at as f64 * scale;
        let _ = write!(
            out,
            "<line class=grid x1={x:.1} x2={x:.1} y1=0 y2={height} /><text x={:.1} y=11>{}</text>",
            x + 3.0,
            seconds(at as i64)
        );
        at += step;
    }
    for (at, lane) in places {
        let unit = &run.units[at];
        let _ = write!(
            out,
            "<rect class=\"unit {}\" x={:.2} y={:.1} width={:.2} height={:.1} rx=2><title>{}: {}, {}</title></rect>",
            Look::of(unit).class(),
            unit.began_us as f64 * scale,
            TOP + LANE * lane as f64 + 2.0,
            (unit.wall_us as f64 * scale).max(1.0),
            LANE - 4.0,
            at + 1,
            escape(&run.command(unit, 100)),
            seconds(unit.wall_us as i64),
        );
    }
    out.push_str("</svg>");
}

/// Returns a step of 1, 2 or 5 times a power of ten that is at least `least`.
fn round_step(least: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step >= least.max(1) {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::round_step;

    #[test]
    fn steps_are_round() {
        for (least, step) in [(0, 1), (1, 1), (3, 5), (11, 20), (499, 500), (501, 1000)] {
            assert_eq!(round_step(least), step);
        }
        assert!(round_step(u64::MAX) > 0);
    }
}
