//! The parts of a Markdown page that the checks look at.

use std::collections::BTreeMap;

/// A piece of text and the line it stands in, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) line: usize,
}

/// The lines outside blocks of code, numbered from 1.
fn lines(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    page.lines().zip(1..).filter_map(move |(line, number)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((number, line)),
            _ => {}
        }
        None
    })
}

/// The pieces of a line in turn: outside of code, inside of it, outside, and so on.
fn around_code(line: &str) -> Vec<&str> {
    line.split('`').collect()
}

/// The pieces in backticks.
pub(super) fn code(page: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (number, line) in lines(page) {
        for text in around_code(line).into_iter().skip(1).step_by(2) {
            found.push(Found {
                text: text.to_owned(),
                line: number,
            });
        }
    }
    found
}

/// The targets of links and pictures.
pub(super) fn links(page: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (number, line) in lines(page) {
        let pieces = around_code(line);
        // Code in a link's text must not part the brackets from each other.
        let text: String = pieces
            .iter()
            .enumerate()
            .map(|(index, piece)| if index % 2 == 0 { piece } else { "code" })
            .collect();
        let inline = text.split("](").skip(1).filter_map(|rest| {
            let target = rest.split([')', ' ']).next()?;
            Some(target.trim_matches(['<', '>']).to_owned())
        });
        // `[name]: target`
        let reference = text
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .filter(|(name, _)| !name.contains(']'))
            .and_then(|(_, target)| target.split_whitespace().next())
            .map(str::to_owned);
        found.extend(
            inline
                .chain(reference)
                .map(|text| Found { text, line: number }),
        );
    }
    found
}

/// The names by which links reach the headings, as GitHub and mdBook make them.
pub(super) fn anchors(page: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, line) in lines(page) {
        let Some(heading) = line.strip_prefix('#') else {
            continue;
        };
        let heading = heading.trim_start_matches('#');
        if !heading.starts_with(' ') {
            continue;
        }
        let name = anchor(heading.trim());
        let count = seen.entry(name.clone()).or_default();
        found.push(match *count {
            0 => name,
            more => format!("{name}-{more}"),
        });
        *count += 1;
    }
    found
}

fn anchor(heading: &str) -> String {
    // Of a link only its text is shown.
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    shown
        .to_lowercase()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            other => other.is_alphanumeric().then_some(other),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let page = "a [b](c.md) and ![`d`](e.png \"title\")\n```\n[no](no.md)\n```\n`[no](x)`\n[f]: g.md#h\n";
        let found: Vec<_> = links(page)
            .into_iter()
            .map(|link| (link.line, link.text))
            .collect();
        let expected = [(1, "c.md"), (1, "e.png"), (6, "g.md#h")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn anchors_are_made_of_headings() {
        let page = "# What `pcache` does, and why\n## [Link](x.md) here\n## Twice\n## Twice\n#no\n";
        assert_eq!(
            anchors(page),
            ["what-pcache-does-and-why", "link-here", "twice", "twice-1"]
        );
    }
}
