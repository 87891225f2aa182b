//! The tests that `cargo nextest` lists.
//!
//! Its list (`--message-format json`) names for each executable the directory in which its
//! tests run, and its tests with whether they were asked for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::{Digests, Expected, Test, subject};
use crate::platform::interrupt::Interrupt;
use crate::sandbox::Job;
use crate::sandbox::guard::{self, Take};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct List {
    rust_suites: BTreeMap<String, Suite>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Suite {
    package_name: String,
    binary_path: PathBuf,
    cwd: PathBuf,
    testcases: BTreeMap<String, Case>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Case {
    ignored: bool,
    filter_match: FilterMatch,
}

#[derive(Debug, Deserialize)]
struct FilterMatch {
    status: String,
}

/// Options for a list that can be read.
pub(crate) const OPTIONS: [&str; 2] = ["--message-format", "json"];

/// Lists the tests by this call of `cargo nextest list`, with [`OPTIONS`].
///
/// # Errors
/// If nextest is not there, or fails, or says something unknown.
pub(super) fn tests(list: &Command, interrupt: &Interrupt) -> anyhow::Result<Vec<Test>> {
    let output = guard::output(list, Take::Reports, interrupt).context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "`cargo nextest list` failed ({})",
        output.status
    );
    parse(&output.stdout)
}

fn parse(json: &[u8]) -> anyhow::Result<Vec<Test>> {
    let list: List =
        serde_json::from_slice(json).context("reading what `cargo nextest list` says")?;
    let mut digests = Digests::default();
    let mut tests = Vec::new();
    for (binary, suite) in list.rust_suites {
        for (name, case) in suite.testcases {
            if case.filter_match.status != "matches" {
                continue;
            }
            let mut args: Vec<OsString> =
                vec![name.clone().into(), "--exact".into(), "--nocapture".into()];
            if case.ignored {
                args.push("--ignored".into());
            }
            let mut job = Job::new(&suite.binary_path, args);
            job.dir = Some(suite.cwd.clone());
            job = job
                .with("CARGO_MANIFEST_DIR", suite.cwd.clone())
                .with("CARGO_PKG_NAME", suite.package_name.clone())
                .with("NEXTEST", "1")
                .with("NEXTEST_EXECUTION_MODE", "process-per-test");
            tests.push(Test {
                name: format!("{binary}${name}"),
                subject: subject(&mut digests, &job)?,
                job,
                expected: Expected::Success,
                patience: 1,
                // Nextest has a process for each.
                executable: None,
            });
        }
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_tests_that_match_are_taken() {
        let json = r#"{"rust-build-meta": {"target-directory": "/t"}, "test-count": 3,
            "rust-suites": {"p::it": {"package-name": "p", "binary-id": "p::it",
                "binary-name": "it", "package-id": "x", "kind": "test",
                "binary-path": "/bin/true", "build-platform": "target", "cwd": "/",
                "status": "listed", "testcases": {
                    "a::one": {"kind": "test", "ignored": false, "filter-match": {"status": "matches"}},
                    "a::two": {"kind": "test", "ignored": true, "filter-match": {"status": "matches"}},
                    "no": {"ignored": false, "filter-match": {"status": "mismatch", "reason": "string"}}
                }}}}"#;
        let tests = parse(json.as_bytes()).unwrap();
        let shown: Vec<_> = tests
            .iter()
            .map(|test| (&*test.name, test.job.args.len()))
            .collect();
        assert_eq!(shown, [("p::it$a::one", 3), ("p::it$a::two", 4)]);
        assert!(parse(b"{}").is_err());
    }
}
