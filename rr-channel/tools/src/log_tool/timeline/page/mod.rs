//! The page: a template, its style and its scripts, and the recording as JSON.
//!
//! **Invariant:** nothing in a recording ends the script element that holds it, or is
//! taken for a tag: JSON has `<` in strings only, and there it is written as an escape.
//! The scripts make text of names, never markup.

use std::io::{self, Write};

use super::Timeline;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 6] = [
    include_str!("recording.js"),
    include_str!("layout.js"),
    include_str!("draw.js"),
    include_str!("marks.js"),
    include_str!("panel.js"),
    include_str!("input.js"),
];

pub(super) fn write(timeline: &Timeline, out: &mut dyn Write) -> anyhow::Result<()> {
    // Each `{{name}}` in the template is a part.
    for (index, piece) in TEMPLATE.split("{{").enumerate() {
        let (part, text) = match index {
            0 => ("", piece),
            _ => piece.split_once("}}").unwrap_or(("", piece)),
        };
        match part {
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => SCRIPTS
                .iter()
                .try_for_each(|script| out.write_all(script.as_bytes()))?,
            "recording" => serde_json::to_writer(Escaped(out), timeline)?,
            _ => {}
        }
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Writes JSON such that it is no markup.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (index, piece) in bytes.split(|byte| *byte == b'<').enumerate() {
            if index > 0 {
                self.0.write_all(br"\u003c")?;
            }
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
