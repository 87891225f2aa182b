//! Cargo's configuration, as cargo itself reads it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};

use super::cargo::{CHANNEL, cargo};

/// The configuration that holds for calls of cargo.
#[derive(Debug, Clone, Copy)]
pub(super) struct Configuration<'a> {
    /// Options of these calls.
    pass: &'a [String],
}

impl<'a> Configuration<'a> {
    /// That of calls with these options.
    pub(super) const fn of(pass: &'a [String]) -> Self {
        Configuration { pass }
    }

    /// Whether there is a value of that name.
    pub(super) fn has(self, key: &str) -> bool {
        self.json(key).is_some()
    }

    /// A string.
    pub(super) fn string(self, key: &str) -> Option<String> {
        serde_json::from_slice(&self.json(key)?).ok()
    }

    /// A program: that of the first of these `variables` that is set, or that of `key`. A path is
    /// relative to where it is from, as for cargo: it becomes one that holds everywhere.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub(super) fn program(self, variables: &[&str], key: &str) -> anyhow::Result<Option<String>> {
        let here = env::current_dir().context("cannot find the current directory")?;
        let variable = variables
            .iter()
            .find_map(|name| Some((name, env::var_os(name)?)));
        if let Some((name, value)) = variable {
            let value = value
                .into_string()
                .map_err(|_| anyhow!("{name} is not UTF-8"))?;
            return from(&here, value);
        }
        let Some(value) = self.string(key) else {
            return Ok(None);
        };
        // A file holds for the directory above that of its own.
        let file = self.origin(key);
        let root = file.as_deref().and_then(|file| file.parent()?.parent());
        from(root.unwrap_or(&here), value)
    }

    /// The options of rustdoc for `target` that the user wants, wherever cargo looks first.
    pub(super) fn rustdoc_flags(self, target: &str) -> Vec<String> {
        if let Ok(flags) = env::var("CARGO_ENCODED_RUSTDOCFLAGS") {
            let flags = flags.split('\u{1f}').filter(|flag| !flag.is_empty());
            return flags.map(str::to_owned).collect();
        }
        if let Ok(flags) = env::var("RUSTDOCFLAGS") {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
        self.configured_rustdoc_flags(target)
    }

    fn configured_rustdoc_flags(self, target: &str) -> Vec<String> {
        let of_target = self.words(&format!("target.{target}.rustdocflags"));
        if of_target.is_empty() {
            self.words("build.rustdocflags")
        } else {
            of_target
        }
    }

    /// A list of words, or a string of them; those of the environment come last.
    fn words(self, key: &str) -> Vec<String> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Words {
            List(Vec<String>),
            Text(String),
        }
        let value = self
            .json(key)
            .and_then(|json| serde_json::from_slice(&json).ok());
        let mut words = match value {
            Some(Words::List(words)) => words,
            Some(Words::Text(text)) => text.split_whitespace().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let variable = format!("CARGO_{}", key.replace(['.', '-'], "_").to_uppercase());
        if let Ok(text) = env::var(variable) {
            words.extend(text.split_whitespace().map(str::to_owned));
        }
        words
    }

    /// The file that has a value.
    fn origin(self, key: &str) -> Option<PathBuf> {
        let text = String::from_utf8(self.get(&["--show-origin", key])?).ok()?;
        let (_, origin) = text.trim_end().rsplit_once(" # ")?;
        Some(PathBuf::from(origin)).filter(|origin| origin.is_absolute())
    }

    /// A value, in JSON.
    fn json(self, key: &str) -> Option<Vec<u8>> {
        self.get(&["--format", "json-value", key])
    }

    /// The output of `cargo config get` with these words.
    fn get(self, words: &[&str]) -> Option<Vec<u8>> {
        let mut command = cargo();
        command
            .args(["-Zunstable-options", "config", "get"])
            .args(words)
            .env(CHANNEL, "nightly");
        let mut pass = self.pass.iter();
        while let Some(option) = pass.next() {
            if option == "--config" {
                command.arg(option).args(pass.next());
            }
        }
        // An answer without a word is as good as no.
        let output = command.output().ok()?;
        output.status.success().then_some(output.stdout)
    }
}

/// The program that `value` names in a file for the directory `root`: one without a slash is
/// searched for.
fn from(root: &Path, value: String) -> anyhow::Result<Option<String>> {
    if value.is_empty() || !value.contains('/') {
        return Ok(Some(value).filter(|value| !value.is_empty()));
    }
    let path = root.join(value).into_os_string().into_string();
    let path = path.map_err(|path| anyhow!("the path {} is not UTF-8", path.display()))?;
    Ok(Some(path))
}

/// A program that cargo calls with each executable for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Runner {
    key: String,
    /// Whether the user has one that is a string of words: cargo does not put a list in its place.
    is_string: bool,
}

impl Runner {
    /// That of `target`. Says if the user has one, which will not be used.
    pub(super) fn of(target: &str, configuration: Configuration<'_>) -> Self {
        let key = format!("target.{target}.runner");
        let string = configuration.string(&key);
        let variable = format!(
            "CARGO_TARGET_{}_RUNNER",
            target.replace(['-', '.'], "_").to_uppercase()
        );
        if env::var_os(&variable).is_some() {
            eprintln!("reprise: the runner in {variable} is not used");
        } else if string.is_some() || configuration.has(&key) {
            eprintln!("reprise: cargo's configuration {key} is not used");
        }
        Runner {
            key,
            is_string: string.is_some(),
        }
    }

    /// Cargo's option that has it call these `words` instead.
    ///
    /// # Errors
    /// If they cannot be put into the place of the user's.
    pub(super) fn option(&self, words: &[String]) -> anyhow::Result<String> {
        let Runner { key, is_string } = self;
        if !is_string {
            return Ok(format!("{key}={}", serde_json::to_string(words)?));
        }
        if let Some(word) = words.iter().find(|word| word.contains(char::is_whitespace)) {
            bail!(
                "cargo's configuration {key} is a string, which cannot be overridden by one with \
                 a space in `{word}`: make it a list, `runner = [\"PROGRAM\", \"ARGUMENT\"]`"
            );
        }
        ensure!(!words.is_empty(), "there is no runner");
        Ok(format!(
            "{key}={}",
            serde_json::to_string(&words.join(" "))?
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn options_of_rustdoc_are_those_of_the_target_or_all() {
        let option = |text: &str| ["--config".to_owned(), text.to_owned()];
        let mut pass = option("build.rustdocflags = [\"--cfg\", \"a b\"]").to_vec();
        let flags = |pass: &[String]| Configuration::of(pass).configured_rustdoc_flags("t-u");
        assert_eq!(flags(&pass), ["--cfg", "a b"]);
        pass.extend(option("target.t-u.rustdocflags = \"--cfg c\""));
        assert_eq!(flags(&pass), ["--cfg", "c"]);
    }

    #[test]
    fn the_path_of_a_program_is_relative_to_where_it_is_from() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".cargo/config.toml");
        fs::create_dir(dir.path().join(".cargo")).unwrap();
        let check = |value: &str, program: Option<&str>| {
            fs::write(&file, format!("build.rustc-wrapper = \"{value}\"")).unwrap();
            let pass = ["--config".to_owned(), file.to_str().unwrap().to_owned()];
            let found = Configuration::of(&pass).program(&[], "build.rustc-wrapper");
            assert_eq!(found.unwrap().as_deref(), program);
        };
        let below = dir.path().join("tools/wrap.sh");
        check("tools/wrap.sh", below.to_str());
        check("/usr/bin/wrap", Some("/usr/bin/wrap"));
        check("sccache", Some("sccache"));
        check("", None);
        let here = from(Path::new("/a/b"), "./wrap.sh".to_owned());
        assert_eq!(here.unwrap().as_deref(), Some("/a/b/./wrap.sh"));
    }

    #[test]
    fn a_runner_has_the_type_of_the_one_that_it_overrides() {
        let option = |is_string, words: &[&str]| {
            let key = "target.t.runner".to_owned();
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            let option = Runner { key, is_string }.option(&words);
            option.map_err(|error| error.to_string())
        };
        let list = r#"target.t.runner=["/a b","c"]"#;
        assert_eq!(option(false, &["/a b", "c"]).as_deref(), Ok(list));
        let string = r#"target.t.runner="/a c""#;
        assert_eq!(option(true, &["/a", "c"]).as_deref(), Ok(string));
        assert!(option(true, &["/a b", "c"]).is_err());
    }
}
