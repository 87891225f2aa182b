//! Metadata of web platform tests: `FILE.ini` in a directory of the same
//! shape as the tests.
//!
//! ```text
//! expected: FAIL                    for all tests of the file
//! [name.html?variant]               for the test whose URL ends so
//!   disabled:
//!     if os == "win": a reason
//!   [the title of a subtest]
//!     expected: NOTRUN
//! ```
//!
//! The nearest place counts: a test's own section, then what stands before all sections, then
//! `__dir__.ini` in the file's directory and in those above it. Of several outcomes the first
//! is the usual one. Subtests are the command's business: a run has one exit status. The form
//! is that of wptrunner (`tools/wptrunner/docs/expectation.rst` of wpt).

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::Expected;
use super::condition::{Properties, holds};

/// The metadata of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TestMetadata {
    pub(super) expected: Expected,
    /// It is not run.
    pub(super) is_disabled: bool,
}

/// A directory of such files.
pub(super) struct Metadata<'a> {
    dir: &'a Path,
    properties: &'a Properties,
    /// Those of directories, which many tests ask for.
    dirs: BTreeMap<PathBuf, Option<File>>,
}

impl<'a> Metadata<'a> {
    pub(super) const fn new(dir: &'a Path, properties: &'a Properties) -> Metadata<'a> {
        Metadata {
            dir,
            properties,
            dirs: BTreeMap::new(),
        }
    }

    /// The metadata of tests that are made of this file, in the order of their URLs.
    ///
    /// # Errors
    /// If a file cannot be read, or what it says of these tests is not understood.
    pub(super) fn of(&mut self, file: &str, urls: &[&str]) -> anyhow::Result<Vec<TestMetadata>> {
        let path = self.dir.join(format!("{file}.ini"));
        let own = File::read(&path)?;
        let mut above = Vec::new();
        for dir in Path::new(file).ancestors().skip(1) {
            let path = self.dir.join(dir).join("__dir__.ini");
            if !self.dirs.contains_key(&path) {
                self.dirs.insert(path.clone(), File::read(&path)?);
            }
            above.push(path);
        }
        let above = above.iter().filter_map(|path| {
            let file = self.dirs.get(path)?.as_ref()?;
            Some((&**path, &file.keys))
        });
        let above: Vec<(&Path, &Keys)> = above.collect();
        urls.iter()
            .map(|url| {
                let own = own.iter().flat_map(|own| {
                    let section = own.sections.iter().find(|(name, _)| name == end_of(url));
                    let keys = section.map(|(_, keys)| keys).into_iter();
                    keys.chain([&own.keys]).map(|keys| (&*path, keys))
                });
                let places = own.chain(above.iter().copied());
                let in_words = |path: &Path| format!("{url}, in {}", path.display());
                let get = |key: &str| -> anyhow::Result<Option<(&Path, &str)>> {
                    for (path, keys) in places.clone() {
                        let value = keys.get(key);
                        let found = value
                            .map_or(Ok(None), |value| value.choose(self.properties))
                            .with_context(|| in_words(path))?;
                        if let Some(found) = found {
                            return Ok(Some((path, found)));
                        }
                    }
                    Ok(None)
                };
                if get("disabled")?.is_some_and(|(_, value)| value != "@False") {
                    return Ok(TestMetadata {
                        is_disabled: true,
                        ..TestMetadata::default()
                    });
                }
                let expected = match get("expected")? {
                    Some((path, value)) => outcome(value).with_context(|| in_words(path))?,
                    None => Expected::default(),
                };
                Ok(TestMetadata {
                    expected,
                    is_disabled: false,
                })
            })
            .collect()
    }
}

/// The part of a URL's path after the last `/`, which names a section.
fn end_of(url: &str) -> &str {
    let path = url.find(['?', '#']).unwrap_or(url.len());
    let from = url[..path].rfind('/').map_or(0, |slash| slash + 1);
    &url[from..]
}

/// The expectation for a test, from its outcome in words.
fn outcome(value: &str) -> anyhow::Result<Expected> {
    let list = value
        .strip_prefix('[')
        .map(|rest| rest.strip_suffix(']').context("a list has no end"))
        .transpose()?
        .unwrap_or(value);
    let first = list.split(',').next().unwrap_or_default();
    Ok(match first.trim().trim_matches(['"', '\'']) {
        "PASS" | "OK" => Expected::Success,
        "FAIL" | "ERROR" | "PRECONDITION_FAILED" => Expected::Failure,
        "CRASH" => Expected::Crash,
        "TIMEOUT" => Expected::Timeout,
        other => bail!("`expected: {other}` is not understood"),
    })
}

type Keys = BTreeMap<String, Value>;

#[derive(Debug, Default)]
struct File {
    /// The keys before all sections.
    keys: Keys,
    sections: Vec<(String, Keys)>,
}

/// The values of a key, perhaps with conditions. The first one that applies counts.
#[derive(Debug, Default)]
struct Value(Vec<(Option<String>, String)>);

impl Value {
    fn choose(&self, properties: &Properties) -> anyhow::Result<Option<&str>> {
        ensure!(!self.0.is_empty(), "a key has no value");
        for (condition, value) in &self.0 {
            let applies = match condition {
                Some(condition) => holds(condition, properties)?,
                None => true,
            };
            if applies {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Where lines go that are further in than the one that a place began with.
enum Place {
    Section(usize),
    /// Of a subtest, which nobody asks for.
    Subtest,
    Key(Option<usize>, String),
}

impl File {
    fn read(path: &Path) -> anyhow::Result<Option<File>> {
        match fs::read_to_string(path) {
            Ok(text) => File::parse(&text)
                .map(Some)
                .with_context(|| format!("reading {}", path.display())),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn parse(text: &str) -> anyhow::Result<File> {
        let mut file = File::default();
        let mut places: Vec<(usize, Place)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let indent = line.len() - line.trim_start_matches(' ').len();
            let line = without_comment(line).trim_end();
            if line.trim_start().is_empty() {
                continue;
            }
            let line = &line[indent..];
            ensure!(
                !line.starts_with(char::is_whitespace),
                "line {}: it is indented by something else than spaces",
                number + 1
            );
            places.retain(|(of, _)| *of < indent);
            file.line(line, indent, &mut places)
                .with_context(|| format!("line {}", number + 1))?;
        }
        Ok(file)
    }

    fn line(
        &mut self,
        line: &str,
        indent: usize,
        places: &mut Vec<(usize, Place)>,
    ) -> anyhow::Result<()> {
        let place = places.last().map(|(_, place)| place);
        if let Some(Place::Subtest) = place {
            return Ok(());
        }
        if let Some(Place::Key(section, key)) = place {
            let (condition, value) = alternative(line)?;
            let (section, key) = (*section, key.clone());
            let keys = self.keys(section);
            keys.entry(key).or_default().0.push((condition, value));
            return Ok(());
        }
        if let Some(heading) = line.strip_prefix('[') {
            let place = match place {
                None => {
                    self.sections.push((name(heading)?, Keys::new()));
                    Place::Section(self.sections.len() - 1)
                }
                Some(_) => Place::Subtest,
            };
            places.push((indent, place));
            return Ok(());
        }
        let (key, value) = line.split_once(':').context("it has no `:`")?;
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        let section = match place {
            None => None,
            Some(Place::Section(section)) => Some(*section),
            Some(Place::Subtest | Place::Key(..)) => return Ok(()),
        };
        let found = self.keys(section).entry(key.clone()).or_default();
        ensure!(found.0.is_empty(), "a second `{key}`");
        if value.is_empty() {
            places.push((indent, Place::Key(section, key)));
        } else {
            found.0.push((None, value));
        }
        Ok(())
    }

    fn keys(&mut self, section: Option<usize>) -> &mut Keys {
        match section.and_then(|section| self.sections.get_mut(section)) {
            Some((_, keys)) => keys,
            None => &mut self.keys,
        }
    }
}

/// `if CONDITION: VALUE`, or a value.
fn alternative(line: &str) -> anyhow::Result<(Option<String>, String)> {
    let condition = line.strip_prefix("if");
    let Some(rest) = condition.filter(|rest| rest.starts_with([' ', '('])) else {
        return Ok((None, line.to_owned()));
    };
    let colon = outside_of_quotes(rest, ':').context("a condition has no `:`")?;
    let (condition, value) = (&rest[..colon], &rest[colon + 1..]);
    Ok((Some(condition.trim().to_owned()), value.trim().to_owned()))
}

fn without_comment(line: &str) -> &str {
    // In names of tests and subtests it is a letter like others.
    let from = if line.trim_start().starts_with('[') {
        line.rfind(']').unwrap_or(0)
    } else {
        0
    };
    match outside_of_quotes(&line[from..], '#') {
        Some(at) => &line[..from + at],
        None => line,
    }
}

/// Where a letter first stands that is neither in a string nor behind a `\`.
fn outside_of_quotes(text: &str, wanted: char) -> Option<usize> {
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match quote {
            _ if letter == '\\' => {
                letters.next();
            }
            Some(open) => quote = (letter != open).then_some(open),
            None if letter == wanted => return Some(at),
            None if letter == '"' => quote = Some(letter),
            None => {}
        }
    }
    None
}

/// The name of a section, of what follows its bracket.
fn name(heading: &str) -> anyhow::Result<String> {
    let mut name = String::new();
    let mut letters = heading.chars();
    loop {
        match letters.next() {
            Some(']') => break,
            Some('\\') => match letters.next() {
                Some(letter) if !letter.is_ascii_alphanumeric() => name.push(letter),
                _ => bail!("`\\` with a letter or a digit is not understood in a name"),
            },
            Some(letter) => name.push(letter),
            None => bail!("a name has no `]`"),
        }
    }
    let rest = letters.as_str();
    ensure!(rest.is_empty(), "`{rest}` follows a name");
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata of the tests of `d/e/a.html`, with `d/__dir__.ini`.
    fn known(text: &str, dir: &str, urls: &[&str]) -> anyhow::Result<Vec<TestMetadata>> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("d/e")).unwrap();
        fs::write(root.path().join("d/e/a.html.ini"), text).unwrap();
        fs::write(root.path().join("d/__dir__.ini"), dir).unwrap();
        let properties = Properties::with(&[("debug".to_owned(), "false".to_owned())]);
        Metadata::new(root.path(), &properties).of("d/e/a.html", urls)
    }

    fn expected(text: &str, url: &str) -> Option<Expected> {
        let known = known(text, "", &[url]).ok()?;
        (!known[0].is_disabled).then_some(known[0].expected)
    }

    #[test]
    fn each_section_is_about_its_own_test() {
        let text = "[a.html?one]\n  expected: FAIL\n\n[a.html?two/x]\n  expected: TIMEOUT\n\
                    [a.html]\n  expected: CRASH\n";
        let check = |url, outcome| assert_eq!(expected(text, url), Some(outcome), "{url}");
        check("/d/e/a.html?one", Expected::Failure);
        check("/d/e/a.html?two/x", Expected::Timeout);
        check("/d/e/a.html", Expected::Crash);
        check("/d/e/a.html?three", Expected::Success);
    }

    #[test]
    fn the_nearest_place_counts() {
        let check = |text, dir, outcome| {
            let known = known(text, dir, &["/d/e/a.html"]).unwrap();
            assert_eq!(known[0].expected, outcome, "{text} {dir}");
        };
        check("", "", Expected::Success);
        check("", "expected: CRASH", Expected::Crash);
        check("expected: FAIL", "expected: CRASH", Expected::Failure);
        check("[a.html]", "expected: CRASH", Expected::Crash);
        check(
            "expected: FAIL\n[a.html]\n  expected: OK\n",
            "expected: CRASH",
            Expected::Success,
        );
        check(
            "[b.html]\n  expected: TIMEOUT\n",
            "expected: FAIL\n[a.html]\n  expected: CRASH",
            Expected::Failure,
        );
    }

    #[test]
    fn outcomes_are_understood_or_refused() {
        let check = |value: &str, outcome| {
            let text = format!("[a.html]\n  expected: {value}\n");
            assert_eq!(expected(&text, "/d/e/a.html"), outcome, "{value}");
        };
        check("PASS", Some(Expected::Success));
        check("\"OK\" # as it says", Some(Expected::Success));
        check("[TIMEOUT, OK]", Some(Expected::Timeout));
        check("ERROR", Some(Expected::Failure));
        check("PRECONDITION_FAILED", Some(Expected::Failure));
        check("NOTRUN", None);
        check("[FAIL,", None);
        check("", None);
        check("\n    if unheard_of: FAIL", None);
        check("\n  expected: FAIL\n  expected: FAIL", None);
    }

    #[test]
    fn conditions_choose_the_first_value_that_applies() {
        let check = |values: &str, outcome| {
            let text = format!("[a.html]\n  expected:\n{values}\n");
            assert_eq!(expected(&text, "/d/e/a.html"), Some(outcome), "{values}");
        };
        check("    if os == \"linux\": FAIL\n    CRASH", Expected::Failure);
        check("    if os == \"win\": FAIL\n    CRASH", Expected::Crash);
        check("    if debug: FAIL", Expected::Success);
        check("    if(bits == 64): FAIL", Expected::Failure);
        check(
            "    if os == \"a:b\": FAIL\n    if not debug: [TIMEOUT, OK]",
            Expected::Timeout,
        );
    }

    #[test]
    fn disabled_tests_are_known() {
        let check = |text: &str, dir: &str, is_disabled| {
            let known = known(text, dir, &["/d/e/a.html"]).unwrap();
            assert_eq!(known[0].is_disabled, is_disabled, "{text} {dir}");
        };
        check("[a.html]\n  disabled: http://bugs/1", "", true);
        check("[a.html]\n  disabled: why\n  expected: NOTRUN", "", true);
        check("[a.html?b]\n  disabled: http://bugs/1", "", false);
        check("", "disabled: all of them", true);
        check("[a.html]\n  disabled: @False", "disabled: all", false);
        check("disabled:\n  if debug: no", "", false);
    }

    #[test]
    fn subtests_are_the_commands_business() {
        let text = "[a.html]\n  expected: TIMEOUT\n  [one: [\\] # two]\n    expected: NOTRUN\n    \
                    disabled:\n      if x: y\n  [three]\n    expected: FAIL\n\n[a.html?b]\n  \
                    [one]\n    expected:\n      if os == \"linux\": FAIL\n      CRASH\n";
        assert_eq!(expected(text, "/d/e/a.html"), Some(Expected::Timeout));
        assert_eq!(expected(text, "/d/e/a.html?b"), Some(Expected::Success));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let check = |heading: &str, url: &str| {
            let text = format!("[{heading}]\n  expected: FAIL\n");
            assert_eq!(expected(&text, url), Some(Expected::Failure), "{heading}");
        };
        check("a.html?x=[1\\]", "/d/e/a.html?x=[1]");
        check("a.html?x#y", "/d/e/a.html?x#y");
        assert!(known("[a.html\n", "", &[]).is_err());
        assert!(known("[a.html] more\n", "", &[]).is_err());
        assert!(known("[a\\x20.html]\n", "", &[]).is_err());
        assert!(known("no key\n", "", &[]).is_err());
        assert!(known("[a.html]\n\texpected: FAIL\n", "", &[]).is_err());
    }
}
