//! Variables in a key, and the strings of an execve.
//!
//! Consecutive programs mostly have the same variables, so the last ones are kept in hashed form.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use super::Execution;
use crate::model::fact::Digest;
use crate::model::path::FilePath;
use crate::platform::lock::lock;
use crate::policy::config::Config;
use crate::policy::{Policy, ignores_variable, tells_nesting};

/// Strings in one allocation.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Appends a string.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// Returns the strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let text = &self.bytes[from..*end];
            from = *end;
            text
        })
    }

    /// Returns the strings as separate vectors.
    pub fn to_vecs(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }
}

impl<'t> FromIterator<&'t [u8]> for Texts {
    fn from_iter<I: IntoIterator<Item = &'t [u8]>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text));
        all
    }
}

/// The variables that count.
#[derive(Debug)]
pub(super) struct Variables {
    /// In the original order.
    given: Vec<Vec<u8>>,
    pub(super) sorted: Arc<[Vec<u8>]>,
    /// Hash input of the sorted variables, as from [`super::hasher::add`].
    pub(super) hashed: Vec<u8>,
    /// Digest of the variables with the nesting of makes and shells, if these do not count.
    pub(super) nesting: Option<Digest>,
}

impl Variables {
    fn new(given: Vec<Vec<u8>>, nesting: Option<Digest>) -> Self {
        let mut sorted = given.clone();
        sorted.sort_unstable();
        let mut hashed = Vec::new();
        for entry in &sorted {
            hashed.extend_from_slice(&(entry.len() as u64).to_le_bytes());
            hashed.extend_from_slice(entry);
        }
        Self {
            given,
            sorted: sorted.into(),
            hashed,
            nesting,
        }
    }
}

/// The variables of the previous key.
#[derive(Debug, Default)]
pub(super) struct LastVariables(Mutex<Option<Arc<Variables>>>);

impl LastVariables {
    /// Returns the variables that count for `program`.
    pub(super) fn of(
        &self,
        execution: &Execution,
        program: &FilePath,
        policy: &Policy,
        config: &Config,
    ) -> Arc<Variables> {
        let given = || {
            let counts = |entry: &&[u8]| {
                let name = name(entry);
                execution.strict
                    || !(ignores_variable(name, program.as_bytes(), policy) || config.ignores(name))
            };
            execution.envp.iter().filter(counts).map(without_tokens)
        };
        let nesting = policy
            .ignores_nesting
            .then(|| nesting(&execution.envp, config));
        let mut last = lock(&self.0);
        if let Some(last) = &*last {
            let mut known = last.given.iter();
            let is_next = |entry: Cow<'_, [u8]>| known.next().is_some_and(|known| *known == *entry);
            if given().all(is_next) && known.next().is_none() && last.nesting == nesting {
                return last.clone();
            }
        }
        let new = Variables::new(given().map(Cow::into_owned).collect(), nesting);
        last.insert(Arc::new(new)).clone()
    }
}

/// Returns the name of a variable.
fn name(entry: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'=', entry).unwrap_or(entry.len());
    &entry[..end]
}

/// Returns the digest of the variables with the nesting of makes and shells.
fn nesting(envp: &Texts, config: &Config) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("pcache nesting 1");
    let counts = |entry: &&[u8]| {
        let name = name(entry);
        tells_nesting(name) && !config.ignores(name)
    };
    for entry in envp.iter().filter(counts) {
        super::hasher::add(&mut hasher, &without_tokens(entry));
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Returns a make variable without its jobserver's descriptors (or FIFO).
fn without_tokens(entry: &[u8]) -> Cow<'_, [u8]> {
    if ![&b"MAKEFLAGS="[..], b"MFLAGS=", b"CARGO_MAKEFLAGS="]
        .iter()
        .any(|name| entry.starts_with(name))
    {
        return entry.into();
    }
    let words: Vec<&[u8]> = entry
        .split(|&b| b == b' ')
        .filter(|word| !word.starts_with(b"--jobserver-"))
        .collect();
    words.join(&b' ').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::policy;

    fn execution(envp: &[&str], strict: bool) -> Execution {
        Execution {
            tid: 0,
            path: FilePath::from("/bin/true"),
            argv: Vec::new(),
            envp: envp.iter().map(|entry| entry.as_bytes()).collect(),
            cwd: "/".into(),
            descriptors: Vec::new(),
            limits: crate::key::Limits::of(0).into(),
            machine: Digest::default(),
            strict,
        }
    }

    #[test]
    fn key_variables_do_not_depend_on_the_previous_execution() {
        let last = LastVariables::default();
        let check = |program: &str, envp: &[&str], strict: bool, expected: &[&str]| {
            let execution = execution(envp, strict);
            for last in [&last, &LastVariables::default()] {
                let policy = policy(program.as_bytes(), &[], strict);
                let found = last.of(
                    &execution,
                    &FilePath::from(program),
                    &policy,
                    &Config::default(),
                );
                let expected: Vec<Vec<u8>> = expected.iter().map(|entry| (*entry).into()).collect();
                assert_eq!(*found.sorted, expected);
                let mut hashed = Vec::new();
                for entry in &expected {
                    hashed.extend_from_slice(&(entry.len() as u64).to_le_bytes());
                    hashed.extend_from_slice(entry);
                }
                assert_eq!(found.hashed, hashed);
            }
        };
        check("/bin/true", &["b=1", "_=x", "a=2"], false, &["a=2", "b=1"]);
        check("/bin/true", &["b=1", "_=y", "a=2"], false, &["a=2", "b=1"]);
        check("/bin/true", &["b=1"], false, &["b=1"]);
        check("/bin/true", &["b=1", "a=2"], false, &["a=2", "b=1"]);
        check("/bin/true", &["b=1", "a=3"], false, &["a=3", "b=1"]);
        check("/bin/true", &["b=1", "_=y"], true, &["_=y", "b=1"]);
        check("/usr/bin/env", &["_=y"], false, &["_=y"]);
        check("/bin/true", &["_=y"], false, &[]);
        let tokens = ["MAKEFLAGS=k --jobserver-auth=3,4 -- x", "a=1"];
        check("/bin/true", &tokens, false, &["MAKEFLAGS=k -- x", "a=1"]);
        let jobs = ["MAKEFLAGS= -j2", "MFLAGS=-j2"];
        check("/usr/bin/x86_64-linux-gnu-gcc-12", &jobs, false, &[]);
        check("/usr/bin/x86_64-linux-gnu-gcc-12", &jobs, true, &jobs);
        check("/bin/sh", &jobs, false, &jobs);
    }

    #[test]
    fn texts_return_the_pushed_strings() {
        let all: [&[u8]; 3] = [b"a", b"", b"bc"];
        let texts: Texts = all.into_iter().collect();
        assert_eq!(texts.iter().collect::<Vec<_>>(), all);
        assert_eq!(texts.to_vecs(), all);
    }
}
