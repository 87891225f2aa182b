//! A recording that is kept beside the tests: two small files.
//!
//! `NAME.toml` is for people: which test, how it ended, what it was before and after, and the
//! beginning of the recording in words. `NAME.pack` is the recording itself, a tar archive,
//! compressed. Both have a version, and the first names the digest of the second.
//!
//! Where both are replaced, the new description is there under another name before the pack
//! is exchanged, and has its own name after that: who is killed in between has left a pack
//! whose description is beside it ([`Artefact::tidy`]).
//!
//! **Invariant:** unpacking writes regular files below the given directory and nothing else,
//! and no more than [`LARGEST`] bytes, whatever is in the file.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

/// The version of both files.
pub const VERSION: u32 = 1;
/// The most that a recording may hold.
const LARGEST: u64 = 1 << 30;
/// So many lines of it are shown.
const SHOWN: usize = 40;

/// The description of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artefact {
    /// Of this form.
    pub version: u32,
    /// The test's name.
    pub test: String,
    /// The engine's name.
    pub engine: String,
    /// How the recorded run ended, in words.
    pub ending: String,
    /// The digest of the program and arguments that were recorded.
    pub subject: String,
    /// How many events it has, where the engine counts them.
    pub events: u64,
    /// Plain runs as expected, and all, when it was recorded.
    pub before: (u64, u64),
    /// Replays as expected, and all.
    pub after: (u64, u64),
    /// The digest of the pack (BLAKE3).
    pub pack: String,
    /// The beginning of the recording.
    pub recording: String,
}

/// A pack that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// How large it is.
    pub bytes: u64,
    /// Its digest.
    pub pack: String,
}

impl Artefact {
    /// One for a recording that says this in words.
    pub fn shown(text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        let mut shown = lines
            .iter()
            .take(SHOWN)
            .map(|line| format!("{line}\n"))
            .collect();
        if lines.len() > SHOWN {
            shown = format!("{shown}... and {} more lines\n", lines.len() - SHOWN);
        }
        shown
    }

    /// Where the artefact of a test lies in a directory, without its ending.
    pub fn place(dir: &Path, test: &str) -> PathBuf {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name: String = test.chars().map(plain).take(80).collect();
        let digest = xxhash_rust::xxh3::xxh3_64(test.as_bytes()) as u32;
        dir.join(format!("{name}-{digest:08x}"))
    }

    /// Reads what is said of a recording.
    ///
    /// # Errors
    /// If it cannot be read, or is of another version.
    pub fn read(path: &Path) -> anyhow::Result<Artefact> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let table: toml::Table =
            toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let version = table.get("version").and_then(toml::Value::as_integer);
        ensure!(
            version == Some(i64::from(VERSION)),
            "{} is of another version than {VERSION}: record the test again",
            path.display()
        );
        table
            .try_into()
            .with_context(|| format!("reading {}", path.display()))
    }

    /// All artefacts of a directory, by their files' names.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn all(dir: &Path) -> anyhow::Result<Vec<(PathBuf, Artefact)>> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", dir.display()));
            }
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Some(name) = name.strip_suffix(".toml.new") {
                finish(&path.with_file_name(name))?;
                paths.extend(Some(path.with_extension("")).filter(|path| path.is_file()));
            } else if name.ends_with(".toml") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.dedup();
        paths
            .into_iter()
            .map(|path| Ok((path.clone(), Artefact::read(&path)?)))
            .collect()
    }

    /// Finishes what somebody who was killed has left half done in a directory. Nobody else
    /// may store anything there meanwhile.
    ///
    /// # Errors
    /// If something cannot be renamed or removed.
    pub fn tidy(dir: &Path) -> anyhow::Result<()> {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let new = [".toml.new", ".pack.new"];
            if let Some(name) = new.iter().find_map(|new| name.strip_suffix(new)) {
                tidy_place(&path.with_file_name(name))?;
            }
        }
        Ok(())
    }

    /// Stores a recording with what is said of it. Where there was another one, that is there
    /// as a whole until this one is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn store(mut self, place: &Path, recording: &Path) -> anyhow::Result<Stored> {
        if let Some(dir) = place.parent() {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let packed =
            pack_up(recording).with_context(|| format!("packing {}", recording.display()))?;
        self.version = VERSION;
        self.pack = blake3::hash(&packed).to_hex().to_string();
        let text = toml::to_string(&self)?;
        let new = [ending(place, "toml.new"), ending(place, "pack.new")];
        let exchange = || {
            fs::write(&new[0], text)?;
            fs::write(&new[1], &packed)?;
            fs::rename(&new[1], ending(place, "pack"))?;
            fs::rename(&new[0], ending(place, "toml"))
        };
        exchange().with_context(|| {
            // What is left of them is of no use, unless the pack is there.
            let _ = tidy_place(place);
            format!("cannot write {}", ending(place, "toml").display())
        })?;
        Ok(Stored {
            bytes: packed.len() as u64,
            pack: self.pack,
        })
    }

    /// The file for people of the artefact at a place.
    pub fn description(place: &Path) -> PathBuf {
        ending(place, "toml")
    }

    /// Removes an artefact.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn remove(place: &Path) -> anyhow::Result<()> {
        remove(&[ending(place, "toml"), ending(place, "pack")])
    }

    /// Unpacks the recording whose description is in the file `toml` into a directory.
    ///
    /// # Errors
    /// If it is not there, is another one, or is no such archive.
    pub fn unpack(&self, toml: &Path, into: &Path) -> anyhow::Result<()> {
        let pack = toml.with_extension("pack");
        let packed = fs::read(&pack).with_context(|| format!("cannot read {}", pack.display()))?;
        ensure!(
            blake3::hash(&packed).to_hex().as_str() == self.pack,
            "{} is not the one that {} names",
            pack.display(),
            toml.display()
        );
        unpack(&packed, into).with_context(|| format!("unpacking {}", pack.display()))
    }
}

/// The path with an ending of its own: a test's name may have dots.
fn ending(place: &Path, ending: &str) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Gives a description its name, if the pack that it is of has its own already.
fn finish(place: &Path) -> anyhow::Result<()> {
    let new = ending(place, "toml.new");
    let is_of_pack = |artefact: Artefact| {
        let pack = fs::read(ending(place, "pack")).ok();
        pack.is_some_and(|pack| blake3::hash(&pack).to_hex().as_str() == artefact.pack)
    };
    if Artefact::read(&new).is_ok_and(is_of_pack) {
        fs::rename(&new, ending(place, "toml"))
            .with_context(|| format!("cannot rename {}", new.display()))?;
    }
    Ok(())
}

/// The same, and removes what was not finished.
fn tidy_place(place: &Path) -> anyhow::Result<()> {
    finish(place)?;
    remove(&[ending(place, "toml.new"), ending(place, "pack.new")])
}

fn remove(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn pack_up(dir: &Path) -> anyhow::Result<Vec<u8>> {
    let mut files = Vec::new();
    collect(dir, Path::new(""), &mut files)?;
    files.sort();
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 12)?);
    archive.mode(tar::HeaderMode::Deterministic);
    for name in files {
        archive.append_file(&name, &mut File::open(dir.join(&name))?)?;
    }
    Ok(archive.into_inner()?.finish()?)
}

fn collect(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn unpack(packed: &[u8], into: &Path) -> anyhow::Result<()> {
    let limited = zstd::Decoder::new(packed)?.take(LARGEST);
    let mut archive = tar::Archive::new(BufReader::new(limited));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let is_below = name
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !is_below || entry.header().entry_type() != tar::EntryType::Regular {
            bail!("{} is no file of a recording", name.display());
        }
        let path = into.join(&name);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        io::copy(&mut entry, &mut file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn artefact() -> Artefact {
        Artefact {
            version: VERSION,
            test: "a::b$c".to_owned(),
            engine: "rr-channel".to_owned(),
            ending: "exit status 0".to_owned(),
            subject: "s".to_owned(),
            events: 3,
            before: (60, 100),
            after: (100, 100),
            pack: String::new(),
            recording: "t0\n  recv\n".to_owned(),
        }
    }

    #[test]
    fn a_stored_recording_is_read_and_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("recording");
        fs::create_dir_all(recording.join("log")).unwrap();
        fs::write(recording.join("log/0"), [7; 5000]).unwrap();
        fs::write(recording.join("session"), "s").unwrap();
        let kept = dir.path().join("kept");
        let place = Artefact::place(&kept, "a::b$c");
        assert!(artefact().store(&place, &recording).unwrap().bytes < 1000);
        let all = Artefact::all(&kept).unwrap();
        let [(path, found)] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!((found.test.as_str(), found.before), ("a::b$c", (60, 100)));
        let again = dir.path().join("again");
        found.unpack(path, &again).unwrap();
        assert_eq!(fs::read(again.join("log/0")).unwrap(), [7; 5000]);
        assert_eq!(fs::read(again.join("session")).unwrap(), b"s");

        // The same recording gives the same bytes.
        let first = fs::read(path.with_extension("pack")).unwrap();
        artefact().store(&place, &recording).unwrap();
        assert_eq!(fs::read(path.with_extension("pack")).unwrap(), first);
        // Another pack is not taken for this one.
        fs::write(path.with_extension("pack"), "x").unwrap();
        assert!(found.unpack(path, &dir.path().join("third")).is_err());
    }

    /// The files that a kill leaves at each step of storing a second recording.
    #[test]
    fn whoever_is_killed_leaves_the_old_recording_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("recording");
        fs::create_dir(&recording).unwrap();
        let store = |kept: &str, text: &str| {
            fs::write(recording.join("log"), text).unwrap();
            let place = Artefact::place(&dir.path().join(kept), "a::b$c");
            artefact().store(&place, &recording).unwrap();
            place
        };
        let new = store("new", "second");
        let bytes = |suffix: &str| fs::read(ending(&new, suffix)).unwrap();
        let (toml, pack) = (bytes("toml"), bytes("pack"));
        let check = |step: &str, steps: &dyn Fn(&Path), expected: &str| {
            for tidies in [false, true] {
                let kept = dir.path().join(format!("{step} {tidies}"));
                let place = store(&format!("{step} {tidies}"), "first");
                steps(&place);
                if tidies {
                    Artefact::tidy(&kept).unwrap();
                    assert_eq!(fs::read_dir(&kept).unwrap().count(), 2, "{step}");
                }
                let all = Artefact::all(&kept).unwrap();
                let [(path, found)] = all.as_slice() else {
                    panic!("{step}: {all:?}")
                };
                let into = kept.join("unpacked");
                found.unpack(path, &into).unwrap();
                let text = fs::read_to_string(into.join("log")).unwrap();
                assert_eq!(text, expected, "{step}");
            }
        };
        let put = |place: &Path, suffix: &str, bytes: &[u8]| {
            fs::write(ending(place, suffix), bytes).unwrap();
        };
        check(
            "half a description",
            &|place| put(place, "toml.new", &toml[..50]),
            "first",
        );
        check(
            "half a pack",
            &|place| {
                put(place, "toml.new", &toml);
                put(place, "pack.new", &pack[..50]);
            },
            "first",
        );
        check(
            "the pack",
            &|place| {
                put(place, "toml.new", &toml);
                put(place, "pack", &pack);
            },
            "second",
        );
    }

    #[test]
    fn other_versions_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        fs::write(&path, "version = 2\n").unwrap();
        let error = Artefact::read(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("is of another version than 1: record the test again"),
            "{error}"
        );
    }

    #[test]
    fn unpacking_writes_only_below_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["../out", "a/../../out"] {
            let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(1);
            header.set_cksum();
            archive.append(&header, &b"x"[..]).unwrap();
            let packed = archive.into_inner().unwrap().finish().unwrap();
            assert!(unpack(&packed, &dir.path().join("in")).is_err(), "{name}");
            assert!(!dir.path().join("out").exists());
        }
    }

    proptest! {
        #[test]
        fn any_pack_is_unpacked_or_refused(
            noise in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let _ = unpack(&noise, &dir.path().join("raw"));
            let packed = zstd::encode_all(&noise[..], 1).unwrap();
            let _ = unpack(&packed, &dir.path().join("in"));
        }
    }
}
