//! Mutates the input of parsers. Each parser returns an error or a value.
//!
//! The parsers are those of the targets in `fuzz/`. The mutations of data stored by a real run are
//! always the same, so the test runs everywhere. It continues for the number of seconds in
//! `MUTATIONS_SECONDS`; seeds for the fuzzer are written to the directory `MUTATIONS_SEEDS`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use process_cache::{journal, remote, store};

/// A parser of bytes from a file or from the network.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 5] = [
    ("entry", |bytes| drop(store::check_entry(bytes))),
    ("entry_body", store::check_entry_body),
    ("digest_table", |bytes| {
        let _ = store::check_table(bytes);
    }),
    ("journal", journal::check_journal),
    ("remote", remote::check::check_remote),
];

/// Number of mutated inputs for each target.
const ROUNDS: u64 = 4000;

/// Length of the part before the body of a frame; its last eight bytes are the length of the body.
const HEADER: usize = 28;

/// Runs a few programs, finally with results from a remote cache.
fn work(dir: &Path) {
    let tree = dir.join("tree");
    for made in [&tree, &dir.join("remote")] {
        fs::create_dir_all(made).expect("a directory");
    }
    let script = "seq 300 > a; sort -r a > b; cat b | head -n 3; mkdir -p d; ln -sf ../a d/l; \
                  [ -e none ] || cp a d/c; rm -f a; echo e >&2; ls d";
    for (store, edit) in [("store", ""), ("store", "x"), ("other", "x")] {
        let pcache = Command::new(env!("CARGO_BIN_EXE_pcache"))
            .args(["--quiet", "--min-time", "0", "--cache-dir"])
            .arg(dir.join(store))
            .args(["--remote-keep", "now", "--remote-wait", "300", "--remote"])
            .arg(format!("dir:{}", dir.join("remote").display()))
            .args(["--", "sh", "-c", script, edit])
            .current_dir(&tree)
            .env("HOME", dir)
            .stdin(Stdio::null())
            .output();
        let output = pcache.expect("pcache runs");
        assert!(output.status.success(), "{output:?}");
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Returns the bodies of all frames in the bytes.
fn bodies(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while bytes.len() >= HEADER {
        let length = u64::from_le_bytes(bytes[HEADER - 8..HEADER].try_into().expect("eight"));
        let end = usize::try_from(length)
            .ok()
            .and_then(|l| l.checked_add(HEADER));
        let Some(body) = end.and_then(|end| bytes.get(HEADER..end)) else {
            break;
        };
        found.push(body.to_vec());
        bytes = &bytes[HEADER + body.len()..];
    }
    found
}

/// Returns bytes as they are, and decompressed if they are compressed.
fn unpacked(bytes: &[u8]) -> Vec<Vec<u8>> {
    let limit = 1 << 20;
    let inside = [0, 4, 8]
        .into_iter()
        .filter_map(|skip| zstd::bulk::decompress(bytes.get(skip..)?, limit).ok());
    std::iter::once(bytes.to_vec()).chain(inside).collect()
}

/// Returns valid input for each target.
fn seeds() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let dir = tempfile::tempdir().expect("a directory");
    work(dir.path());
    let mut paths = Vec::new();
    for part in ["store", "other", "remote"] {
        files(&dir.path().join(part), &mut paths);
    }
    let mut seeds: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for path in paths {
        let inside = path.strip_prefix(dir.path()).expect("it is below");
        let within = |part: &str| inside.components().any(|c| c.as_os_str() == part);
        if within("tmp") || within("locks") {
            continue;
        }
        let bytes = fs::read(&path).expect("a file");
        if within("units") {
            seeds
                .entry("entry_body")
                .or_default()
                .extend(bodies(&bytes));
            seeds.entry("entry").or_default().push(bytes);
        } else if within("digests") {
            seeds.entry("digest_table").or_default().push(bytes);
        } else if within("journal") {
            let runs = bodies(&bytes);
            let journal = seeds.entry("journal").or_default();
            journal.extend(runs.iter().flat_map(|run| unpacked(run)));
            journal.push(bytes);
        } else if within("remote") {
            // Data of a server that has the results of this directory in bundles.
            let key = remote::codec::Key([7; 32]);
            let bundle = remote::bundle::encode(key, &bytes, b"contents").expect("zstd");
            let remote = seeds.entry("remote").or_default();
            remote.extend(bundle);
            remote.extend(unpacked(&bytes));
        }
    }
    seeds
}

/// Deterministic choices (SplitMix64).
struct Dice(u64);

impl Dice {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }
}

/// Returns a seed with changes at up to eight positions.
fn mutate(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(8) {
        let at = dice.below(bytes.len() + 1);
        let scale = 1 + dice.below(8);
        let length = dice.below(1 << scale);
        let end = bytes.len().min(at + length);
        match dice.below(9) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            2 if at < bytes.len() => bytes[at] = dice.bits() as u8,
            // Limits of numbers, in both encodings of the formats.
            3 if at + 8 <= bytes.len() => {
                let number = [0, 1, u64::MAX, 1 << 31, 1 << 63][dice.below(5)];
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            4 => drop(bytes.splice(at..at, [0xff; 9].into_iter().chain([1]))),
            5 => drop(bytes.drain(at..end)),
            6 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            7 => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len() + 1);
                let part = other[from..other.len().min(from + length)].to_vec();
                drop(bytes.splice(at..end, part));
            }
            8 if dice.below(4) == 0 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}

#[test]
fn mutated_stored_bytes_are_parsed_or_refused() {
    let seeds = seeds();
    if let Some(dir) = std::env::var_os("MUTATIONS_SEEDS") {
        for (name, seeds) in &seeds {
            let dir = Path::new(&dir).join(name);
            fs::create_dir_all(&dir).expect("a directory");
            for (number, seed) in seeds.iter().enumerate() {
                fs::write(dir.join(number.to_string()), seed).expect("a file");
            }
        }
    }
    let seconds = std::env::var("MUTATIONS_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse::<u64>().expect("a number"));
    for (name, target) in TARGETS {
        let seeds = &seeds[name];
        assert!(
            seeds.len() > 1 || name == "digest_table",
            "{name}: no seeds"
        );
        seeds.iter().for_each(|seed| target(seed));
        let begun = Instant::now();
        let mut dice = Dice(1);
        let mut rounds = 0;
        loop {
            let bytes = mutate(&mut dice, seeds);
            let caught = std::panic::catch_unwind(|| target(&bytes));
            assert!(caught.is_ok(), "{name}, round {rounds}: {bytes:?}");
            rounds += 1;
            let enough = match seconds {
                Some(seconds) => begun.elapsed() > Duration::from_secs(seconds),
                None => rounds == ROUNDS,
            };
            if enough {
                break;
            }
        }
        println!("{name}: {rounds} of {} seeds", seeds.len());
    }
}
