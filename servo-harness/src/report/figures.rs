//! The two figures of the Tivo evaluation: for each test, the rate of expected runs, plain
//! against replay, and the time of a replay over that of a plain run.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::summary::{Row, Stats};

const PLAIN: RGBColor = RGBColor(176, 92, 48);
const REPLAY: RGBColor = RGBColor(38, 110, 170);
const LINES: RGBColor = RGBColor(222, 222, 222);
const INK: RGBColor = RGBColor(60, 60, 60);

/// The width of a figure, in pixels.
const WIDTH: u32 = 860;
/// The height of a test's line.
const LINE: u32 = 26;
const ABOVE: i32 = 34;
const BELOW: u32 = 46;
/// The room for names.
const NAMES: i32 = 300;
/// So many characters of a name are shown.
const NAME: usize = 42;
const RIGHT: i32 = 24;

/// Where values of a figure lie.
struct Axes<'a> {
    area: DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    /// The values at both ends.
    ends: (f64, f64),
    height: i32,
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Axes<'_> {
    fn x(&self, value: f64) -> i32 {
        let (from, to) = self.ends;
        let width = f64::from(WIDTH as i32 - NAMES - RIGHT);
        let part = ((value - from) / (to - from)).clamp(0.0, 1.0);
        NAMES + (part * width).round() as i32
    }

    fn y(line: usize) -> i32 {
        ABOVE + (line as i32) * LINE as i32 + LINE as i32 / 2
    }

    fn text(&self, text: &str, at: (i32, i32), colour: RGBColor, anchor: HPos) -> Drawn {
        let style = ("sans-serif", 13)
            .into_font()
            .color(&colour)
            .pos(Pos::new(anchor, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style))?;
        Ok(())
    }

    /// A mark on the axis, from top to bottom.
    fn mark(&self, value: f64, text: &str, colour: RGBColor) -> Drawn {
        let x = self.x(value);
        let line = PathElement::new(vec![(x, ABOVE - 4), (x, self.height)], colour);
        self.area.draw(&line)?;
        self.text(text, (x, self.height + 12), INK, HPos::Center)
    }

    fn dot(&self, value: f64, y: i32, colour: RGBColor) -> Drawn {
        self.area
            .draw(&Circle::new((self.x(value), y), 5, colour.filled()))?;
        Ok(())
    }

    /// A rate with its interval.
    fn rate(&self, stats: &Stats, y: i32, colour: RGBColor) -> Drawn {
        let ends = vec![(self.x(stats.low), y), (self.x(stats.high), y)];
        self.area
            .draw(&PathElement::new(ends, colour.mix(0.55).stroke_width(3)))?;
        self.dot(stats.rate(), y, colour)
    }

    fn key(&self, at: i32, text: &str, colour: RGBColor) -> Drawn {
        self.area.draw(&Circle::new((at, 14), 5, colour.filled()))?;
        self.text(text, (at + 10, 14), INK, HPos::Left)
    }

    fn name(&self, row: &Row, line: usize) -> Drawn {
        self.text(
            &short(&row.test),
            (NAMES - 12, Self::y(line)),
            INK,
            HPos::Right,
        )
    }
}

/// The end of a long name says more than its beginning.
fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= NAME {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(count - NAME + 1).collect();
    format!("…{tail}")
}

fn figure(
    lines: usize,
    ends: (f64, f64),
    draw: impl FnOnce(&Axes<'_>) -> Drawn,
) -> Result<String, String> {
    let mut svg = String::new();
    {
        let height = ABOVE as u32 + LINE * lines as u32;
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height + BELOW)).into_drawing_area();
        let axes = Axes {
            area,
            ends,
            height: height as i32,
        };
        draw(&axes).map_err(|error| error.to_string())?;
        axes.area.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

/// The rates of expected runs, as SVG.
///
/// # Errors
/// If the library cannot draw.
pub(super) fn rates(rows: &[&Row]) -> Result<String, String> {
    figure(rows.len(), (0.0, 1.0), |axes| {
        for percent in [0, 25, 50, 75, 100] {
            axes.mark(f64::from(percent) / 100.0, &format!("{percent} %"), LINES)?;
        }
        axes.key(NAMES, "plain", PLAIN)?;
        axes.key(NAMES + 80, "replay", REPLAY)?;
        let y = axes.height + 32;
        let x = i32::midpoint(NAMES, WIDTH as i32 - RIGHT);
        axes.text(
            "runs as expected (lines: 95 % intervals)",
            (x, y),
            INK,
            HPos::Center,
        )?;
        for (line, row) in rows.iter().enumerate() {
            axes.name(row, line)?;
            let y = Axes::y(line);
            match &row.replay {
                Some(replay) => {
                    axes.rate(&row.plain, y - 5, PLAIN)?;
                    axes.rate(replay, y + 5, REPLAY)?;
                }
                None => axes.rate(&row.plain, y, PLAIN)?,
            }
        }
        Ok(())
    })
}

/// The times of replays over plain runs, as SVG, on a logarithmic axis.
///
/// # Errors
/// If the library cannot draw.
pub(super) fn times(rows: &[(&Row, f64)]) -> Result<String, String> {
    let all = || rows.iter().map(|(_, factor)| factor.log2());
    let low = all().fold(-1.0, f64::min).floor();
    let high = all().fold(1.0, f64::max).ceil();
    figure(rows.len(), (low, high), |axes| {
        let step = (((high - low) / 8.0).ceil() as usize).max(1);
        for power in (low as i32..=high as i32).step_by(step) {
            let colour = if power == 0 { INK } else { LINES };
            axes.mark(f64::from(power), &factor(f64::from(power).exp2()), colour)?;
        }
        let (x, y) = (i32::midpoint(NAMES, WIDTH as i32 - RIGHT), axes.height + 32);
        axes.text(
            "time of a replay over that of a plain run",
            (x, y),
            INK,
            HPos::Center,
        )?;
        for (line, (row, slowdown)) in rows.iter().enumerate() {
            axes.name(row, line)?;
            let y = Axes::y(line);
            let (from, to) = (axes.x(0.0), axes.x(slowdown.log2()));
            let bar = Rectangle::new(
                [(from.min(to), y - 6), (from.max(to), y + 6)],
                REPLAY.mix(0.75).filled(),
            );
            axes.area.draw(&bar)?;
        }
        Ok(())
    })
}

/// A factor, short.
pub(super) fn factor(value: f64) -> String {
    match value {
        ..1.0 => format!("{value:.2}x"),
        ..10.0 => format!("{value:.1}x"),
        _ => format!("{value:.0}x"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_names_the_end_is_shown() {
        assert_eq!(short("a::b"), "a::b");
        let long = format!("{}end", "é".repeat(60));
        assert!(short(&long).ends_with("end"));
        assert_eq!(short(&long).chars().count(), NAME);
    }
}
