//! A small project: inputs in several versions, and a script that builds it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;

/// How many versions there are.
pub(crate) const VERSIONS: usize = 6;
/// How many inputs.
const INPUTS: usize = 5;

/// Builds from whatever was left: each output is made anew.
const SCRIPT: &str = r#"set -e
mkdir -p out
cat in/* | sort > out/all
for name in in/*; do
    base=${name##*/}
    sed 's/a/b/g' $name > out/$base.sed
    sort -u out/$base.sed > out/$base.sorted
done
mv out/0.sed out/0.moved
ln -sf all out/link
cp out/all out/copy
chmod 600 out/copy
head -c 300000 /dev/zero | tr '\0' "$(head -c 1 in/1)" > out/large
grep -c b out/all > out/count || true
rm -f out/1.sed
cat out/*.sorted | cksum
wc -l out/all out/*.sorted
"#;

/// The node at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A directory.
    Dir,
    /// A link with its target.
    Link(PathBuf),
    /// A file with its permission bits and its content.
    File(u32, Vec<u8>),
}

/// Everything below a directory.
pub(crate) type Tree = BTreeMap<PathBuf, Node>;

/// Makes the directory what it is before the first build of a version.
pub(crate) fn reset(dir: &Path, version: usize) -> anyhow::Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("emptying {}", dir.display()))?;
    }
    fs::create_dir_all(dir.join("in"))?;
    fs::write(dir.join("build.sh"), SCRIPT)?;
    set_inputs(dir, version)?;
    for path in ["build.sh", "in", ""] {
        age(&dir.join(path))?;
    }
    Ok(())
}

/// Changes the inputs to another version, and nothing else.
pub(crate) fn set_inputs(dir: &Path, version: usize) -> anyhow::Result<()> {
    for input in 0..INPUTS {
        // Each version differs from the next in one or two inputs.
        let seed = (version + input) / 3 + input * 100;
        let line = |n: usize| format!("{} {}\n", (n * seed) % 97, "abc".repeat(seed % 7 + 1));
        let text: String = (0..200 + seed % 50).map(line).collect();
        let path = dir.join("in").join(input.to_string());
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(&path, text)?;
            age(&path)?;
        }
    }
    Ok(())
}

/// Gives a file a time that is the same in each round.
fn age(path: &Path) -> anyhow::Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    fs::File::open(path)?.set_modified(time)?;
    Ok(())
}

/// Reads everything below a directory.
pub(crate) fn read(dir: &Path) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let node = if metadata.is_dir() {
                open.push(path.clone());
                Node::Dir
            } else if metadata.is_symlink() {
                Node::Link(fs::read_link(&path)?)
            } else {
                Node::File(metadata.permissions().mode(), fs::read(&path)?)
            };
            tree.insert(path.strip_prefix(dir)?.to_owned(), node);
        }
    }
    Ok(tree)
}

/// Takes out what a restore that was killed leaves of itself: files that were going
/// to be renamed. Returns how many there were.
pub(crate) fn take_litter(tree: &mut Tree) -> u64 {
    let before = tree.len();
    tree.retain(|path, _| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !(name.starts_with(".pcache-") && name.len() == 16)
    });
    (before - tree.len()) as u64
}

/// Where two trees differ.
pub(crate) fn differences(ours: &Tree, theirs: &Tree) -> Vec<String> {
    let mut all: Vec<&PathBuf> = ours.keys().chain(theirs.keys()).collect();
    all.sort();
    all.dedup();
    let short = |node: Option<&Node>| match node {
        None => "nothing".to_owned(),
        Some(Node::File(mode, bytes)) => format!("{} bytes, mode {mode:o}", bytes.len()),
        Some(other) => format!("{other:?}"),
    };
    all.into_iter()
        .filter(|path| ours.get(*path) != theirs.get(*path))
        .map(|path| {
            let (plain, cached) = (short(ours.get(path)), short(theirs.get(path)));
            format!("{}: {plain} plainly, {cached} under pcache", path.display())
        })
        .collect()
}
