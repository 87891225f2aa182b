//! JUnit's XML, as CI systems read it.
//!
//! A test that is stable has passed; one whose runs disagree has `flakyFailure`s, as Maven's
//! Surefire writes them, which are shown and do not fail a build; one that always fails has a
//! failure.

use std::fmt::Write as _;

use crate::summary::{Row, Summary};

/// The document.
pub(crate) fn junit(title: &str, summary: &Summary) -> String {
    let failures = summary.tests.iter().filter(|row| fails(row)).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\">\n",
        escape(title),
        summary.tests.len()
    );
    for row in &summary.tests {
        case(&mut xml, row);
    }
    xml += "  </testsuite>\n</testsuites>\n";
    xml
}

fn fails(row: &Row) -> bool {
    matches!(row.verdict(), "always fails" | "worse")
}

fn case(xml: &mut String, row: &Row) {
    let (class, name) = row.test.rsplit_once("::").unwrap_or(("", &row.test));
    let _ = writeln!(
        xml,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.6}\">",
        escape(class),
        escape(name),
        row.plain.median_seconds
    );
    let plain = &row.plain;
    let verdict = row.verdict();
    let text = format!(
        "{verdict}: {} of {} runs were as expected",
        plain.expected, plain.runs
    );
    let element = match fails(row) {
        true => Some("failure"),
        false if plain.is_flaky() => Some("flakyFailure"),
        false => None,
    };
    if let Some(element) = element {
        let output = row.outputs.first().map_or("", String::as_str);
        let _ = writeln!(
            xml,
            "      <{element} message=\"{}\" type=\"{verdict}\">{}</{element}>",
            escape(&text),
            escape(output)
        );
    }
    if plain.runs == 0 {
        *xml += "      <skipped/>\n";
    }
    *xml += "    </testcase>\n";
}

/// Text as it may stand in XML, which has no place for most control characters.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => {
                escaped.push(c);
            }
            _ => escaped.push('\u{fffd}'),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Stats;

    #[test]
    fn each_kind_of_test_has_its_element() {
        let row = |test: &str, expected, unexpected, output: &str| Row {
            test: test.to_owned(),
            plain: Stats {
                runs: expected + unexpected,
                expected,
                unexpected,
                median_seconds: 0.25,
                ..Stats::default()
            },
            replay: None,
            beside_seconds: None,
            p: None,
            tamed: None,
            outputs: if output.is_empty() {
                Vec::new()
            } else {
                vec![output.to_owned()]
            },
        };
        let summary = Summary {
            tests: vec![
                row("p$m::stable", 4, 0, ""),
                row("p$m::flaky", 3, 1, "1 < 2 & \u{1b}[1m"),
                row("broken", 0, 4, ""),
                row("absent", 0, 0, ""),
            ],
            isolated: true,
            complete: true,
        };
        insta::assert_snapshot!(junit("suite", &summary), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="suite" tests="4" failures="1" errors="0">
            <testcase classname="p$m" name="stable" time="0.250000">
            </testcase>
            <testcase classname="p$m" name="flaky" time="0.250000">
              <flakyFailure message="intermittent: 3 of 4 runs were as expected" type="intermittent">1 &lt; 2 &amp; �[1m</flakyFailure>
            </testcase>
            <testcase classname="" name="broken" time="0.250000">
              <failure message="always fails: 0 of 4 runs were as expected" type="always fails"></failure>
            </testcase>
            <testcase classname="" name="absent" time="0.250000">
              <skipped/>
            </testcase>
          </testsuite>
        </testsuites>
        "#);
    }
}
