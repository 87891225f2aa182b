//! JUnit's XML, as CI systems read it, in the form of Maven's Surefire.
//!
//! Its schema (`surefire-test-report.xsd`) has elements for tests that ran more than once. A
//! test whose runs disagree has passed, with a `flakyFailure` for each odd run whose output was
//! kept: these are shown, are no `failures`, and do not fail a build. One that never passes (or
//! that became worse in replay) has a `failure`, and a `rerunFailure` for each further one.

use std::time::Duration;

use anyhow::Context as _;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use crate::report::summary::{Row, Summary};

/// The document.
///
/// # Errors
/// If it cannot be serialized.
pub(crate) fn junit(title: &str, summary: &Summary) -> anyhow::Result<String> {
    let flakes = summary.tests.iter().filter(|row| is_flaky(row)).count();
    let mut suite = TestSuite::new(title);
    suite.add_test_cases(summary.tests.iter().map(case));
    suite
        .extra
        .insert("flakes".into(), flakes.to_string().into());
    let mut report = Report::new(title);
    report.add_test_suite(suite);
    report.to_string().context("writing JUnit's XML")
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

fn case(row: &Row) -> TestCase {
    let (class, name) = row.test.rsplit_once("::").unwrap_or(("", &row.test));
    let mut case = TestCase::new(name, status(row));
    case.set_classname(class)
        .set_time(Duration::from_secs_f64(row.plain.median_seconds));
    case
}

fn status(row: &Row) -> TestCaseStatus {
    if did_not_run(row) {
        return TestCaseStatus::skipped();
    }
    let verdict = row.verdict();
    let message = format!(
        "{verdict}: {} of {} runs were as expected",
        row.plain.expected, row.plain.runs
    );
    let rerun = |output: &str| {
        let mut rerun = TestRerun::new(NonSuccessKind::Failure);
        rerun
            .set_message(&*message)
            .set_type(verdict)
            .set_stack_trace(output);
        rerun
    };
    let mut outputs = row.outputs.iter().map(String::as_str);
    // The first element is there even if no output was kept.
    let first = outputs.next().unwrap_or_default();
    if fails(row) {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status
            .set_message(&*message)
            .set_type(verdict)
            .set_description(first)
            .add_reruns(outputs.map(rerun));
        status
    } else {
        let mut status = TestCaseStatus::success();
        if is_flaky(row) {
            status.add_reruns(std::iter::once(first).chain(outputs).map(rerun));
        }
        status
    }
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
            disturbed: None,
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
        insta::assert_snapshot!(junit("suite", &summary).unwrap(), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="suite" tests="6" skipped="1" failures="2" errors="0">
            <testsuite name="suite" tests="6" skipped="1" errors="0" failures="2" flakes="2">
                <testcase name="stable" classname="p$m" time="0.250"/>
                <testcase name="flaky" classname="p$m" time="0.250">
                    <flakyFailure message="intermittent: 2 of 4 runs were as expected" type="intermittent">
                        <stackTrace>1 &lt; 2 &amp; </stackTrace>
                    </flakyFailure>
                    <flakyFailure message="intermittent: 2 of 4 runs were as expected" type="intermittent">
                        <stackTrace>another</stackTrace>
                    </flakyFailure>
                </testcase>
                <testcase name="silent" classname="p$m" time="0.250">
                    <flakyFailure message="intermittent: 3 of 4 runs were as expected" type="intermittent">
                        <stackTrace></stackTrace>
                    </flakyFailure>
                </testcase>
                <testcase name="broken" classname="" time="0.250">
                    <failure message="always fails: 0 of 4 runs were as expected" type="always fails">one</failure>
                    <rerunFailure message="always fails: 0 of 4 runs were as expected" type="always fails">
                        <stackTrace>two</stackTrace>
                    </rerunFailure>
                </testcase>
                <testcase name="never" classname="" time="0.250">
                    <failure message="always fails: 0 of 4 runs were as expected" type="always fails"></failure>
                </testcase>
                <testcase name="absent" classname="" time="0.250">
                    <skipped/>
                </testcase>
            </testsuite>
        </testsuites>
        "#);
    }
}
