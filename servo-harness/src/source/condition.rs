//! Evaluates conditions in the metadata of web platform tests, as `os == "linux" and not
//! debug`.
//!
//! Names stand for properties of the machine and of the tested program. A name without a value
//! is an error only where it decides (not in `os == "win" and version == "10"` on Linux).

use anyhow::{Context, bail, ensure};

/// The properties that conditions may ask for. All values are texts; numbers are compared as
/// numbers.
#[derive(Debug, Clone)]
pub(super) struct Properties(Vec<(String, String)>);

impl Properties {
    /// Those of this machine, and these, which count more.
    pub(super) fn with(given: &[(String, String)]) -> Properties {
        let own = [("os", "linux"), ("processor", "x86_64"), ("bits", "64")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Properties(given.iter().cloned().chain(own).collect())
    }

    fn get(&self, name: &str) -> anyhow::Result<&str> {
        let found = self.0.iter().find(|(own, _)| own == name);
        let (_, value) = found.with_context(|| {
            format!("a condition needs `{name}`: set it with `--property {name}=VALUE`")
        })?;
        Ok(value)
    }
}

/// Whether a condition holds.
///
/// # Errors
/// If it is not understood, or asks for what is not known.
pub(super) fn holds(condition: &str, properties: &Properties) -> anyhow::Result<bool> {
    let words = words(condition)?;
    let brackets = words.iter().filter(|word| **word == Word::Mark("("));
    ensure!(brackets.count() <= 100, "a condition has too many brackets");
    let mut reader = Reader {
        words: words.into_iter().peekable(),
        properties,
    };
    let value = reader
        .any(true)
        .with_context(|| format!("`if {condition}`"))?;
    if let Some(word) = reader.words.next() {
        bail!("`if {condition}`: {word:?} is not expected there");
    }
    Ok(value)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Name(String),
    Text(String),
    Mark(&'static str),
}

fn words(condition: &str) -> anyhow::Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = condition.trim_start();
    while let Some(first) = rest.chars().next() {
        let mark = ["==", "!=", "(", ")"]
            .into_iter()
            .find(|mark| rest.starts_with(mark));
        let length = if let Some(mark) = mark {
            words.push(Word::Mark(mark));
            mark.len()
        } else if first == '"' || first == '\'' {
            let end = rest[1..].find(first).context("a string has no end")?;
            let text = &rest[1..=end];
            ensure!(!text.contains('\\'), "`\\` is not understood in a string");
            words.push(Word::Text(text.to_owned()));
            end + 2
        } else {
            let of_names = |c: char| c.is_ascii_alphanumeric() || "_.-@".contains(c);
            let end = rest.find(|c| !of_names(c)).unwrap_or(rest.len());
            ensure!(end > 0, "`{first}` is not understood in a condition");
            let name = &rest[..end];
            words.push(match name {
                _ if name.parse::<f64>().is_ok() => Word::Text(name.to_owned()),
                "@True" => Word::Text("true".to_owned()),
                "@False" => Word::Text("false".to_owned()),
                _ => Word::Name(name.to_owned()),
            });
            end
        };
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

/// Reads a condition. What does not decide is read (`counts` is false), and not looked up.
struct Reader<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<Word>>,
    properties: &'a Properties,
}

impl Reader<'_> {
    fn takes(&mut self, wanted: &str) -> bool {
        let is = |word: &Word| match word {
            Word::Name(name) => name == wanted,
            Word::Mark(mark) => *mark == wanted,
            Word::Text(_) => false,
        };
        self.words.next_if(is).is_some()
    }

    fn any(&mut self, counts: bool) -> anyhow::Result<bool> {
        let mut value = self.all(counts)?;
        while self.takes("or") {
            value |= self.all(counts && !value)?;
        }
        Ok(value)
    }

    fn all(&mut self, counts: bool) -> anyhow::Result<bool> {
        let mut value = self.not(counts)?;
        while self.takes("and") {
            value &= self.not(counts && value)?;
        }
        Ok(value)
    }

    fn not(&mut self, counts: bool) -> anyhow::Result<bool> {
        let mut times = 0;
        while self.takes("not") {
            times += 1;
        }
        if self.takes("(") {
            let value = self.any(counts)?;
            ensure!(self.takes(")"), "a bracket is not closed");
            return Ok(value != (times % 2 == 1));
        }
        let left = self.operand(counts)?;
        let value = if self.takes("==") {
            is_same(&left, &self.operand(counts)?)
        } else if self.takes("!=") {
            !is_same(&left, &self.operand(counts)?)
        } else {
            !["", "0", "false"].contains(&&*left)
        };
        Ok(counts && value != (times % 2 == 1))
    }

    fn operand(&mut self, counts: bool) -> anyhow::Result<String> {
        match self.words.next() {
            Some(Word::Text(text)) => Ok(text),
            Some(Word::Name(_)) if !counts => Ok(String::new()),
            Some(Word::Name(name)) => self.properties.get(&name).map(str::to_owned),
            Some(Word::Mark(mark)) => bail!("`{mark}` is not expected there"),
            None => bail!("it ends too early"),
        }
    }
}

fn is_same(left: &str, right: &str) -> bool {
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left == right,
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(condition: &str, expected: Option<bool>) {
        let given = [("debug", "true"), ("version", "22.04"), ("os", "mac")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = holds(condition, &Properties::with(&given)).ok();
        assert_eq!(found, expected, "{condition}");
    }

    #[test]
    fn conditions_are_those_of_wptrunner() {
        check("debug", Some(true));
        check("not debug", Some(false));
        check("os == \"mac\"", Some(true));
        check("os != 'mac'", Some(false));
        check("processor == \"x86_64\" and bits == 64", Some(true));
        check("version == \"22.04\"", Some(true));
        check("debug == @True", Some(true));
        check("not (os == \"win\" or os == \"mac\")", Some(false));
        check("not not debug", Some(true));
    }

    #[test]
    fn and_binds_more_than_or() {
        check("debug or os == \"win\" and not debug", Some(true));
        check("(debug or os == \"win\") and not debug", Some(false));
    }

    #[test]
    fn an_unknown_property_matters_only_where_it_decides() {
        check("product == \"servo\"", None);
        check("os == \"win\" and product == \"servo\"", Some(false));
        check("debug or (product == \"servo\" and wasm)", Some(true));
        check("debug and product == \"servo\"", None);
        let error = holds("product == \"x\"", &Properties::with(&[])).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "`if product == \"x\"`: a condition needs `product`: set it with \
             `--property product=VALUE`"
        );
    }

    #[test]
    fn a_malformed_condition_is_refused() {
        for text in [
            "",
            &"(".repeat(100_000),
            "(debug",
            "debug)",
            "os ==",
            "== os",
            "os = 1",
            "\"a",
            "a \\ b",
            "debug debug",
            "not",
        ] {
            check(text, None);
        }
    }
}
