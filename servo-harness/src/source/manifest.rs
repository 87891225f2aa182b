//! Manifests of web platform tests, and what is expected of their tests.
//!
//! `MANIFEST.json` (version 8) has, for each kind of tests, a tree of directories, in which a
//! file is a list: its digest, then for each test an URL (`null`: the file's path) and
//! options. Expectations are in `FILE.ini` below a directory of the same shape; the
//! `expected` of the first section counts, and the first of several. Conditions are refused.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};

use super::Expected;

/// A test of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) expected: Expected,
    pub(super) patience: u32,
}

/// Kinds of items that are no tests.
const NO_TESTS: [&str; 3] = ["support", "manual", "visual"];
/// A `long` timeout is so many times the usual.
const LONG: u32 = 6;

/// Reads a manifest, and expectations.
///
/// # Errors
/// If a file cannot be read, or holds what is not understood.
pub(super) fn read(path: &Path, metadata: Option<&Path>) -> anyhow::Result<Vec<Entry>> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: Value =
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
    let mut files = Vec::new();
    collect(&manifest, &mut files).with_context(|| format!("reading {}", path.display()))?;
    let mut entries = Vec::new();
    for (file, tests) in files {
        let expected = match metadata {
            Some(dir) => expectation(&dir.join(format!("{file}.ini")))?,
            None => Expected::Success,
        };
        entries.extend(tests.into_iter().map(|(name, patience)| Entry {
            name,
            expected,
            patience,
        }));
    }
    Ok(entries)
}

type Files = Vec<(String, Vec<(String, u32)>)>;

fn collect(manifest: &Value, files: &mut Files) -> anyhow::Result<()> {
    let version = manifest.get("version").and_then(Value::as_u64);
    ensure!(
        version == Some(8),
        "it is a manifest of version {}, not 8",
        version.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
    );
    let base = manifest
        .get("url_base")
        .and_then(Value::as_str)
        .unwrap_or("/");
    let items = manifest
        .get("items")
        .and_then(Value::as_object)
        .context("it has no items")?;
    for (kind, tree) in items {
        if !NO_TESTS.contains(&kind.as_str()) {
            let tree = tree
                .as_object()
                .with_context(|| format!("{kind} is no tree"))?;
            descend(tree, "", base, files)?;
        }
    }
    Ok(())
}

fn descend(
    tree: &Map<String, Value>,
    below: &str,
    base: &str,
    files: &mut Files,
) -> anyhow::Result<()> {
    for (name, value) in tree {
        let path = match below {
            "" => name.clone(),
            below => format!("{below}/{name}"),
        };
        match value {
            // No deeper than the parser of JSON allows.
            Value::Object(tree) => descend(tree, &path, base, files)?,
            Value::Array(file) => {
                let tests = file.iter().skip(1).map(|test| {
                    let url = test.get(0).and_then(Value::as_str).unwrap_or(&path);
                    let options = test.as_array().and_then(|test| test.last());
                    let timeout = options.and_then(|options| options.get("timeout"));
                    let is_long = timeout.and_then(Value::as_str) == Some("long");
                    let url = url.trim_start_matches('/');
                    (format!("{base}{url}"), if is_long { LONG } else { 1 })
                });
                let tests = tests.collect();
                files.push((path, tests));
            }
            _ => bail!("{path} is neither a directory nor a file"),
        }
    }
    Ok(())
}

fn expectation(path: &Path) -> anyhow::Result<Expected> {
    match fs::read_to_string(path) {
        Ok(text) => parse_expectation(&text).with_context(|| format!("reading {}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Expected::Success),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn parse_expectation(text: &str) -> anyhow::Result<Expected> {
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with('['))
        .skip(1);
    let found = lines
        .by_ref()
        // Those of subtests are further in.
        .take_while(|line| !line.trim_start().starts_with('['))
        .find_map(|line| line.trim().strip_prefix("expected:"));
    let Some(found) = found else {
        return Ok(Expected::Success);
    };
    let word = found.trim().trim_matches(['[', ']', '"']);
    Ok(match word.split(',').next().unwrap_or_default().trim() {
        "PASS" | "OK" => Expected::Success,
        "FAIL" | "ERROR" => Expected::Failure,
        "CRASH" => Expected::Crash,
        "TIMEOUT" => Expected::Timeout,
        "" => bail!("expectations with conditions are not understood"),
        other => bail!("`expected: {other}` is not understood"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_the_tree() {
        let manifest = serde_json::json!({
            "version": 8, "url_base": "/",
            "items": {
                "testharness": {"dom": {"events": {
                    "one.html": ["d1", [null, {}]],
                    "two.any.js": ["d2", ["dom/events/two.any.html", {"timeout": "long"}],
                                         ["dom/events/two.any.worker.html", {}]],
                }}},
                "reftest": {"r.html": ["d3", [null, [["/ref.html", "=="]], {}]]},
                "support": {"s.js": ["d4", []]},
            }
        });
        let mut files = Files::new();
        collect(&manifest, &mut files).unwrap();
        let mut tests: Vec<_> = files.into_iter().flat_map(|(_, tests)| tests).collect();
        tests.sort();
        let expected = [
            ("/dom/events/one.html", 1),
            ("/dom/events/two.any.html", LONG),
            ("/dom/events/two.any.worker.html", 1),
            ("/r.html", 1),
        ];
        assert_eq!(
            tests,
            expected.map(|(name, patience)| (name.to_owned(), patience))
        );
    }

    #[test]
    fn expectations_are_read_or_refused() {
        let check = |text: &str, expected| {
            assert_eq!(parse_expectation(text).ok(), expected, "{text}");
        };
        check("", Some(Expected::Success));
        check("[a.html]\n  expected: FAIL\n", Some(Expected::Failure));
        check(
            "[a.html]\n  expected: [TIMEOUT, OK]\n",
            Some(Expected::Timeout),
        );
        check(
            "[a.html]\n  [sub]\n    expected: FAIL\n",
            Some(Expected::Success),
        );
        check(
            "[a.html]\n  expected:\n    if os == \"linux\": FAIL\n",
            None,
        );
        check("[a.html]\n  expected: NOTRUN\n", None);
    }

    #[test]
    fn other_versions_are_refused() {
        let error = collect(&serde_json::json!({"version": 9}), &mut Files::new()).unwrap_err();
        assert_eq!(error.to_string(), "it is a manifest of version 9, not 8");
    }
}
