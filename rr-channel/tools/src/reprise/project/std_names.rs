//! Finds uses of `std` in a source that order threads, or whose answers differ between runs.
//!
//! A source is read as tokens. That finds names inside macros and needs no build. A name that
//! was found may never be compiled or called. A use without a name (a method of a guard that
//! other code made) is not found.

use std::collections::{BTreeSet, HashSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The items of `std` that order threads, by their path: none of them is recorded.
const NAMES: &[&str] = &[
    "sync::Barrier",
    "sync::Condvar",
    "sync::LazyLock",
    "sync::Mutex",
    "sync::Once",
    "sync::OnceLock",
    "sync::ReentrantLock",
    "sync::RwLock",
    "sync::mpmc",
    "sync::mpsc",
    "thread::park",
    "thread::park_timeout",
];

/// The items of `std` whose answers differ from run to run and are in no recording: by path, and in
/// words.
const INPUTS: &[(&str, &str)] = &[
    ("env::temp_dir", "the environment"),
    ("env::var", "the environment"),
    ("env::var_os", "the environment"),
    ("fs::File", "files"),
    ("fs::metadata", "files"),
    ("fs::read", "files"),
    ("fs::read_dir", "the order of files in a directory"),
    ("fs::read_to_string", "files"),
    ("net::TcpListener", "the network"),
    ("net::TcpStream", "the network"),
    ("net::UdpSocket", "the network"),
    ("process::Command", "other processes"),
    ("process::id", "the number of the process"),
    ("sync::atomic", "atomics, which order threads too"),
    ("thread::available_parallelism", "the number of processors"),
    ("thread::sleep", "the time"),
    ("time::Instant", "the time"),
    ("time::SystemTime", "the time"),
];

/// The names in `text`, of [`NAMES`], without `sync`; those of its tests too, if `with_tests`.
/// `None` if it is no Rust.
pub(crate) fn ordering(text: &str, with_tests: bool) -> Option<BTreeSet<&'static str>> {
    // Most files of most packages.
    if !text.contains("sync") && !text.contains("park") {
        return Some(BTreeSet::new());
    }
    let found = names(text, with_tests, NAMES.iter().copied())?;
    let short = found
        .into_iter()
        .map(|name| name.trim_start_matches("sync::"));
    Some(short.collect())
}

/// The [`INPUTS`] that `text` names, tests included: their names, and in words.
pub(crate) fn inputs(text: &str) -> Vec<(&'static str, &'static str)> {
    let known = INPUTS.iter().map(|(name, _)| *name);
    let found = names(text, true, known).unwrap_or_default();
    let is_found = |(name, _): &&(&str, &str)| found.contains(name);
    INPUTS.iter().filter(is_found).copied().collect()
}

/// Those of `known`, by their places in `std`, that `text` names. `None` if it is no Rust.
fn names(
    text: &str,
    with_tests: bool,
    known: impl Iterator<Item = &'static str>,
) -> Option<BTreeSet<&'static str>> {
    let tokens: TokenStream = text.parse().ok()?;
    let mut paths = HashSet::new();
    collect(tokens, "", with_tests, &mut paths);
    let is_there = |path: &str| {
        let of_it = |other: &String| {
            let rest = other.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        paths.iter().any(of_it)
    };
    let is_named = |name: &&str| {
        let (module, item) = name.split_once("::").unwrap_or_default();
        let imports = |path: &str| paths.contains(path) || paths.contains(&format!("{path}::self"));
        is_there(&format!("std::{name}"))
            || imports(&format!("std::{module}")) && is_there(name)
            || paths.contains(&format!("std::{module}::*")) && is_there(item)
    };
    Some(known.filter(is_named).collect())
}

/// Adds each path in `tokens` to `paths`; the parts of a group in an import begin with what is
/// before it, which is `prefix` here.
fn collect(tokens: TokenStream, prefix: &str, with_tests: bool, paths: &mut HashSet<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut path = prefix.to_owned();
    let mut at = 0;
    let restart = |path: &mut String| {
        path.clear();
        *path += prefix;
    };
    while let Some(token) = tokens.get(at) {
        at += 1;
        let goes_on = is_colons(&tokens[at..]);
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' && !with_tests => {
                if tokens.get(at).is_some_and(is_for_tests) {
                    at += 1 + item(&tokens[at + 1..]);
                }
                restart(&mut path);
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && is_colons(&tokens[at - 1..]) => {
                // What begins with colons is a path from the root.
                at += 1;
            }
            TokenTree::Punct(punct) if punct.as_char() != '*' => restart(&mut path),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {
                if !path.is_empty() {
                    path += "::";
                }
                path += &token.to_string();
                if !goes_on {
                    paths.insert(path.clone());
                    restart(&mut path);
                }
            }
            TokenTree::Group(group) => {
                let is_import = group.delimiter() == Delimiter::Brace
                    && is_colons(&tokens[at.saturating_sub(3)..]);
                let within = if is_import { path.as_str() } else { "" };
                collect(group.stream(), within, with_tests, paths);
                restart(&mut path);
            }
            TokenTree::Literal(_) => {}
        }
    }
}

fn is_colons(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: Option<&TokenTree>, joint: bool| {
        matches!(token, Some(TokenTree::Punct(punct))
            if punct.as_char() == ':' && (!joint || punct.spacing() == Spacing::Joint))
    };
    is_colon(tokens.first(), true) && is_colon(tokens.get(1), false)
}

/// Whether this is the inside of an attribute that leaves something to tests.
fn is_for_tests(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if {
        let text = group.stream().to_string().replace(' ', "");
        text == "cfg(test)" || text.starts_with("cfg(all(test,")
    })
}

/// How many of `tokens` are an item.
fn item(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    tokens
        .iter()
        .position(ends)
        .map_or(tokens.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, names: &[&str]) {
        let found: Vec<_> = ordering(text, false).unwrap().into_iter().collect();
        assert_eq!(found, names, "{text}");
    }

    #[test]
    fn inputs_that_differ_between_runs_are_found() {
        let text = "use std::time::{Duration, Instant};\n\
                    fn f() { std::fs::read_dir(x); let sync = 1; }\n\
                    #[cfg(test)]\nmod tests { use std::sync::atomic::AtomicBool; }";
        assert_eq!(
            inputs(text),
            [
                ("fs::read_dir", "the order of files in a directory"),
                ("sync::atomic", "atomics, which order threads too"),
                ("time::Instant", "the time"),
            ]
        );
        assert_eq!(inputs("fn f( {"), []);
    }

    #[test]
    fn names_are_found_however_they_are_imported() {
        check("use std::sync::Mutex;", &["Mutex"]);
        check("static A: ::std::sync::Mutex<u8> = x;", &["Mutex"]);
        check(
            "use std::sync::{Arc, RwLock, mpsc::{self, Sender}};",
            &["RwLock", "mpsc"],
        );
        check(
            "use std::{fmt, sync::{Arc, Condvar}, thread};",
            &["Condvar"],
        );
        check("use std::sync;\nfn f(a: sync::Once) {}", &["Once"]);
        check(
            "use std::{thread, io};\nfn f() { thread::park() }",
            &["thread::park"],
        );
        check("use std::sync::*;\nfn f(a: &Barrier) {}", &["Barrier"]);
        check(
            "thread_local! { static A: std::sync::OnceLock<u8> = x }",
            &["OnceLock"],
        );
    }

    #[test]
    fn names_of_other_crates_are_not_taken_for_std() {
        check("use tokio::sync::Mutex;", &[]);
        check("use crate::sync::{Mutex, mpsc};", &[]);
        check("use parking_lot::Mutex;\nuse std::sync::Arc;", &[]);
        check("use std::sync::atomic::AtomicBool;", &[]);
        check(
            "// std::sync::Mutex\nconst A: &str = \"std::sync::Mutex\";",
            &[],
        );
    }

    #[test]
    fn tests_of_others_are_left_out() {
        check(
            "#[cfg(all(test, unix))]\nmod tests { use std::sync::Mutex; }",
            &[],
        );
        let text = "#[cfg(test)]\nmod tests { use std::sync::Mutex; }\nuse std::sync::Once;";
        check(text, &["Once"]);
        assert_eq!(ordering(text, true).unwrap().len(), 2);
        assert_eq!(ordering("use std::sync::{", true), None);
    }
}
