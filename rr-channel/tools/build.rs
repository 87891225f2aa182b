//! Packs the sources of `rr-channel` and what it is made of into the tool, which writes them where it
//! patches a project: it works wherever it was installed to.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let tools = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // By the directory of the package that they are written to.
    let packages = [
        ("rr-channel", "../src"),
        ("rr-channel-core", "../core/src"),
        ("rr-channel-log", "../log/src"),
        ("rr-channel-std", "../std/src"),
    ];
    let mut code = String::from("&[\n");
    for (package, root) in packages {
        let root = tools.join(root);
        println!("cargo::rerun-if-changed={}", root.display());
        let mut files = Vec::new();
        collect(&root, Path::new(""), &mut files)?;
        files.sort();
        for file in files {
            let source = fs::canonicalize(root.join(&file))?;
            let carried = Path::new(package).join("src").join(file);
            let _ = writeln!(code, "    ({carried:?}, include_str!({source:?})),");
        }
    }
    let script = tools.join("../core/build.rs");
    println!("cargo::rerun-if-changed={}", script.display());
    let source = fs::canonicalize(script)?;
    let _ = writeln!(
        code,
        "    (\"rr-channel-core/build.rs\", include_str!({source:?})),"
    );
    code += "]\n";
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("sources.rs"), code)
}

fn collect(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
