//! The suite, in the manner of web-platform-tests: each page in `wpt` is a test.
//!
//! A page passes if its script finds nothing wrong and, where it has a `<link rel=match>`, if
//! it looks as that page does. `<meta name=variants content="file http process">` says how it
//! is loaded: from a file, over HTTP from this machine, or in a process of its own.
//!
//! It understands what `cargo test` and others say to Rust's own harness: `--list`, `--exact`
//! and a filter.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pages::address::Address;
use pages::browser::Browser;
use pages::content;
use pages::html;
use pages::script::saved_in;
use pages::server::Server;

struct Test {
    name: String,
    page: String,
    variant: String,
    reference: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wpt")
}

/// All tests, in the order of their names.
fn tests() -> std::io::Result<Vec<Test>> {
    let mut tests = Vec::new();
    for dir in fs::read_dir(root())? {
        let dir = dir?;
        if !dir.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(dir.path())? {
            let path = [dir.file_name(), file?.file_name()].map(|part| part.display().to_string());
            let [dir, file] = path;
            let Some(name) = file.strip_suffix(".html") else {
                continue;
            };
            if name.ends_with("-ref") || name.ends_with("-frame") {
                continue;
            }
            let page = format!("{dir}/{file}");
            let tree = html::parse(&fs::read_to_string(root().join(&page))?);
            let (mut reference, mut variants) = (None, "file".to_owned());
            tree.walk(&mut |element| {
                if element.attribute("rel") == Some("match") {
                    reference = element.attribute("href").map(str::to_owned);
                }
                if element.attribute("name") == Some("variants") {
                    variants = element.attribute("content").unwrap_or_default().to_owned();
                }
            });
            for variant in variants.split_whitespace() {
                let suffix = match variant {
                    "file" => String::new(),
                    other => format!(".{other}"),
                };
                tests.push(Test {
                    name: format!("{dir}::{name}{suffix}"),
                    page: page.clone(),
                    variant: variant.to_owned(),
                    reference: reference.clone(),
                });
            }
        }
    }
    tests.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(tests)
}

fn run(test: &Test) -> Result<(), String> {
    let root = root();
    let failed = |error: std::io::Error| error.to_string();
    let browser = Browser::start(test.variant == "process").map_err(failed)?;
    let server = match &*test.variant {
        "http" => Some(Server::start(&root).map_err(failed)?),
        _ => None,
    };
    let address = |page: &str| match &server {
        Some(server) => server.address(page),
        None => Address {
            host: None,
            path: root.join(page).display().to_string(),
        },
    };
    let page = address(&test.page);
    let loaded = browser.load(page.clone());
    match fs::remove_dir_all(saved_in(&page)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.to_string()),
        _ => {}
    }
    loaded.verdict?;
    let Some(reference) = &test.reference else {
        return Ok(());
    };
    let wanted = browser.load(page.join(reference));
    wanted.verdict?;
    let is_empty = wanted.image.pixels.iter().all(|pixel| *pixel == [255; 3]);
    match loaded.image.difference(&wanted.image) {
        _ if is_empty => Err(format!("there is nothing to be seen in {reference}")),
        Some(0) => Ok(()),
        Some(count) => {
            if let Some(dir) = std::env::var_os("PAGES_IMAGES") {
                let write = |name: &str, image: &pages::image::Image| {
                    image.write(&Path::new(&dir).join(name)).map_err(failed)
                };
                write("test.ppm", &loaded.image)?;
                write("reference.ppm", &wanted.image)?;
            }
            Err(format!("{count} pixels are not as in {reference}"))
        }
        None => Err("the images have different sizes".to_owned()),
    }
}

fn main() -> ExitCode {
    if content::enter() {
        return ExitCode::SUCCESS;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let words = args
        .iter()
        .zip(std::iter::once("").chain(args.iter().map(|arg| &**arg)));
    let filters: Vec<&String> = words
        .filter(|(arg, before)| !arg.starts_with('-') && *before != "--format")
        .map(|(arg, _)| arg)
        .collect();
    let is_wanted = |test: &&Test| {
        filters.is_empty()
            || filters.iter().any(|filter| match has("--exact") {
                true => test.name == **filter,
                false => test.name.contains(&***filter),
            })
    };
    let tests = match tests() {
        Ok(tests) => tests,
        Err(error) => {
            eprintln!("the tests cannot be listed: {error}");
            return ExitCode::FAILURE;
        }
    };
    if has("--list") {
        for test in tests.iter().filter(is_wanted).filter(|_| !has("--ignored")) {
            println!("{}: test", test.name);
        }
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for test in tests.iter().filter(is_wanted) {
        match run(test) {
            Ok(()) => {
                passed += 1;
                println!("test {} ... ok", test.name);
            }
            Err(why) => {
                failed += 1;
                println!("test {} ... FAILED: {why}", test.name);
            }
        }
    }
    println!("\ntest result: {passed} passed; {failed} failed");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(101),
    }
}
