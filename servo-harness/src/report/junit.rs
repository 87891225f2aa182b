//! JUnit's XML, as CI systems read it, in the form of Maven's Surefire.
//!
//! Its schema (`surefire-test-report.xsd`) has elements for tests that ran more than once. A
//! test whose runs disagree has passed, with a `flakyFailure` for each odd run whose output was
//! kept: these are shown, are no `failures`, and do not fail a build. One that never passes (or
//! that became worse in replay) has a `failure`, and a `rerunFailure` for each further one.

use std::fmt::Write as _;

use crate::report::summary::{Row, Summary};

/// The document.
pub(crate) fn junit(title: &str, summary: &Summary) -> String {
    let count = |is: &dyn Fn(&Row) -> bool| summary.tests.iter().filter(|row| is(row)).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" \
         tests=\"{}\" errors=\"0\" skipped=\"{}\" failures=\"{}\" flakes=\"{}\">\n",
        escape(title),
        summary.tests.len(),
        count(&did_not_run),
        count(&fails),
        count(&is_flaky),
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

fn is_flaky(row: &Row) -> bool {
    row.plain.is_flaky() && !fails(row)
}

const fn did_not_run(row: &Row) -> bool {
    row.plain.runs == 0
}

fn case(xml: &mut String, row: &Row) {
    let (class, name) = row.test.rsplit_once("::").unwrap_or(("", &row.test));
    let _ = writeln!(
        xml,
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{:.6}\">",
        escape(name),
        escape(class),
        row.plain.median_seconds
    );
    let plain = &row.plain;
    let verdict = row.verdict();
    let text = format!(
        "{verdict}: {} of {} runs were as expected",
        plain.expected, plain.runs
    );
    let attributes = format!("message=\"{}\" type=\"{verdict}\"", escape(&text));
    let mut outputs = row.outputs.iter().map(String::as_str);
    // One there is in any case, also if no output was kept.
    let first = escape(outputs.next().unwrap_or_default());
    if fails(row) {
        let _ = writeln!(xml, "      <failure {attributes}>{first}</failure>");
        outputs.for_each(|output| rerun(xml, "rerunFailure", &attributes, &escape(output)));
    } else if is_flaky(row) {
        rerun(xml, "flakyFailure", &attributes, &first);
        outputs.for_each(|output| rerun(xml, "flakyFailure", &attributes, &escape(output)));
    }
    if did_not_run(row) {
        *xml += "      <skipped/>\n";
    }
    *xml += "    </testcase>\n";
}

/// One of several runs.
fn rerun(xml: &mut String, element: &str, attributes: &str, output: &str) {
    let _ = writeln!(
        xml,
        "      <{element} {attributes}><stackTrace>{output}</stackTrace></{element}>"
    );
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
    use crate::report::summary::Stats;

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
            outputs: output.split_terminator('|').map(str::to_owned).collect(),
        };
        let summary = Summary {
            tests: vec![
                row("p$m::stable", 4, 0, ""),
                row("p$m::flaky", 2, 2, "1 < 2 & \u{1b}[1m|another"),
                row("p$m::silent", 3, 1, ""),
                row("broken", 0, 4, "one|two"),
                row("never", 0, 4, ""),
                row("absent", 0, 0, ""),
            ],
            isolated: true,
            complete: true,
        };
        insta::assert_snapshot!(junit("suite", &summary), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="suite" tests="6" errors="0" skipped="1" failures="2" flakes="2">
            <testcase name="stable" classname="p$m" time="0.250000">
            </testcase>
            <testcase name="flaky" classname="p$m" time="0.250000">
              <flakyFailure message="intermittent: 2 of 4 runs were as expected" type="intermittent"><stackTrace>1 &lt; 2 &amp; �[1m</stackTrace></flakyFailure>
              <flakyFailure message="intermittent: 2 of 4 runs were as expected" type="intermittent"><stackTrace>another</stackTrace></flakyFailure>
            </testcase>
            <testcase name="silent" classname="p$m" time="0.250000">
              <flakyFailure message="intermittent: 3 of 4 runs were as expected" type="intermittent"><stackTrace></stackTrace></flakyFailure>
            </testcase>
            <testcase name="broken" classname="" time="0.250000">
              <failure message="always fails: 0 of 4 runs were as expected" type="always fails">one</failure>
              <rerunFailure message="always fails: 0 of 4 runs were as expected" type="always fails"><stackTrace>two</stackTrace></rerunFailure>
            </testcase>
            <testcase name="never" classname="" time="0.250000">
              <failure message="always fails: 0 of 4 runs were as expected" type="always fails"></failure>
            </testcase>
            <testcase name="absent" classname="" time="0.250000">
              <skipped/>
            </testcase>
          </testsuite>
        </testsuites>
        "#);
    }
}
