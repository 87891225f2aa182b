//! Manifests of web platform tests.
//!
//! `MANIFEST.json` (version 8) has, for each kind of tests, a tree of directories, in which a
//! file is a list: its digest, then for each test an URL (`null`: the file's path) and
//! options. What is expected of tests is in other files ([`super::metadata`]).

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};

use super::Expected;
use super::metadata::{Metadata, TestMetadata};

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

/// Reads a manifest, without the tests that are disabled.
///
/// # Errors
/// If a file cannot be read, or holds what is not understood.
pub(super) fn read(path: &Path, metadata: Option<Metadata<'_>>) -> anyhow::Result<Vec<Entry>> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: Value =
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
    let mut files = Vec::new();
    collect(&manifest, &mut files).with_context(|| format!("reading {}", path.display()))?;
    let mut metadata = metadata;
    let mut entries = Vec::new();
    let mut disabled = 0;
    for (file, tests) in files {
        let urls: Vec<&str> = tests.iter().map(|(url, _)| &**url).collect();
        let known = match &mut metadata {
            Some(metadata) => metadata.of(&file, &urls)?,
            None => vec![TestMetadata::default(); urls.len()],
        };
        disabled += known.iter().filter(|known| known.is_disabled).count();
        let enabled = tests.into_iter().zip(known);
        entries.extend(enabled.filter(|(_, known)| !known.is_disabled).map(
            |((name, patience), known)| Entry {
                name,
                expected: known.expected,
                patience,
            },
        ));
    }
    if disabled > 0 {
        tell!("servo-harness: {disabled} tests are disabled by their metadata");
    }
    Ok(entries)
}

type Files = Vec<(String, Vec<(String, u32)>)>;

fn collect(manifest: &Value, files: &mut Files) -> anyhow::Result<()> {
    let version = manifest.get("version").and_then(Value::as_u64);
    ensure!(
        version == Some(8),
        "the manifest has version {}, not 8",
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
    fn other_versions_are_refused() {
        let error = collect(&serde_json::json!({"version": 9}), &mut Files::new()).unwrap_err();
        assert_eq!(error.to_string(), "the manifest has version 9, not 8");
    }
}
