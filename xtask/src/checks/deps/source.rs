//! The modules of a crate, read from its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use proc_macro2::TokenStream;

use super::table::Table;
use super::tokens::{self, Child, Reference, Scope};

/// The number of a module in its [`Tree`].
pub(super) type ModuleId = usize;

/// The module of `lib.rs`.
pub(super) const ROOT: ModuleId = 0;

/// A module that is compiled outside tests.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Empty for the crate's root.
    pub(super) name: String,
    pub(super) parent: Option<ModuleId>,
    pub(super) children: BTreeMap<String, ModuleId>,
    /// Each with its file, relative to the crate's `src`.
    pub(super) references: Vec<(PathBuf, Reference)>,
    pub(super) imports: BTreeMap<String, Vec<String>>,
    pub(super) globs: Vec<Vec<String>>,
    pub(super) items: std::collections::BTreeSet<String>,
    pub(super) table: Option<Table>,
}

/// All modules of a crate.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) modules: Vec<Module>,
    /// The modules of the macros that stand in the crate's root.
    pub(super) exported_macros: BTreeMap<String, ModuleId>,
}

impl Tree {
    /// The path of a module without `crate`, such as `store::index`.
    pub(super) fn path(&self, module: ModuleId) -> String {
        let own = &self.modules[module];
        match own.parent {
            None => "crate".to_owned(),
            Some(ROOT) => own.name.clone(),
            Some(parent) => format!("{}::{}", self.path(parent), own.name),
        }
    }

    /// The child of `ancestor` that is `module` or contains it.
    pub(super) fn child_towards(&self, ancestor: ModuleId, module: ModuleId) -> Option<ModuleId> {
        let mut at = module;
        loop {
            let parent = self.modules[at].parent?;
            if parent == ancestor {
                return Some(at);
            }
            at = parent;
        }
    }
}

/// Reads a crate from its root file on.
///
/// # Errors
///
/// When the file of a module is missing or is no Rust.
pub(super) fn read(root: &Path) -> anyhow::Result<Tree> {
    read_with(root, &|path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    })
}

/// As [`read`], with the texts of files from `text`, which fails for missing ones.
fn read_with(root: &Path, text: &dyn Fn(&Path) -> anyhow::Result<String>) -> anyhow::Result<Tree> {
    let source_dir = root.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = Reader {
        tree: Tree {
            modules: vec![Module::default()],
            exported_macros: BTreeMap::new(),
        },
        text,
        source_dir: source_dir.clone(),
    };
    reader.file(ROOT, root, &source_dir)?;
    Ok(reader.tree)
}

struct Reader<'a> {
    tree: Tree,
    text: &'a dyn Fn(&Path) -> anyhow::Result<String>,
    source_dir: PathBuf,
}

impl Reader<'_> {
    /// Reads the module of a file whose child modules are in `dir`.
    fn file(&mut self, module: ModuleId, file: &Path, dir: &Path) -> anyhow::Result<()> {
        let text = (self.text)(file)?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow::anyhow!("{} is no Rust: {error}", file.display()))?;
        let own = &mut self.tree.modules[module];
        own.table = own.table.take().or_else(|| Table::parse(&text));
        self.scope(module, tokens::scan(tokens), file, dir)
    }

    fn scope(
        &mut self,
        module: ModuleId,
        scope: Scope,
        file: &Path,
        dir: &Path,
    ) -> anyhow::Result<()> {
        let shown = file
            .strip_prefix(&self.source_dir)
            .unwrap_or(file)
            .to_owned();
        let own = &mut self.tree.modules[module];
        let references = scope.references.into_iter();
        own.references
            .extend(references.map(|reference| (shown.clone(), reference)));
        let imports = scope.imports.into_iter();
        own.imports
            .extend(imports.map(|import| (import.name, import.path)));
        own.globs.extend(scope.globs);
        own.items.extend(scope.items);
        for name in scope.exported_macros {
            self.tree.exported_macros.insert(name, module);
        }
        for child in scope.children {
            self.child(module, child, file, dir)?;
        }
        Ok(())
    }

    fn child(
        &mut self,
        parent: ModuleId,
        child: Child,
        file: &Path,
        dir: &Path,
    ) -> anyhow::Result<()> {
        // The same name may be declared twice, under conditions that exclude each other.
        let known = self.tree.modules[parent].children.get(&child.name).copied();
        let module = known.unwrap_or_else(|| {
            let module = self.tree.modules.len();
            self.tree.modules.push(Module {
                name: child.name.clone(),
                parent: Some(parent),
                ..Module::default()
            });
            let children = &mut self.tree.modules[parent].children;
            children.insert(child.name.clone(), module);
            module
        });
        let own_dir = dir.join(&child.name);
        if let Some(scope) = child.inline {
            return self.scope(module, scope, file, &own_dir);
        }
        if let Some(path) = child.path {
            let file = file.parent().unwrap_or(dir).join(path);
            let dir = file.parent().unwrap_or(dir).to_owned();
            return self.file(module, &file, &dir);
        }
        let folder = own_dir.join("mod.rs");
        if folder.exists() || (self.text)(&folder).is_ok() {
            return self.file(module, &folder, &own_dir);
        }
        self.file(module, &own_dir.with_extension("rs"), &own_dir)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A crate of `(file in src, text)`.
    pub(in crate::checks::deps) fn planted(files: &[(&str, &str)]) -> Tree {
        let text = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found
                .map(|(_, text)| (*text).to_owned())
                .with_context(|| format!("no {}", path.display()))
        };
        read_with(Path::new("lib.rs"), &text).unwrap()
    }

    #[test]
    fn modules_are_found_in_files_folders_and_texts() {
        let tree = planted(&[
            (
                "lib.rs",
                "mod a; mod b; mod c { mod d; } #[cfg(x)] mod e; #[cfg(y)] #[path = \"f.rs\"] mod e;",
            ),
            ("a.rs", "mod inner;"),
            ("a/inner.rs", ""),
            ("b/mod.rs", "mod inner; #[cfg(test)] mod tests;"),
            ("b/inner.rs", ""),
            ("c/d.rs", ""),
            ("e.rs", ""),
            ("f.rs", ""),
        ]);
        let paths: Vec<_> = (0..tree.modules.len()).map(|id| tree.path(id)).collect();
        assert_eq!(
            paths,
            ["crate", "a", "a::inner", "b", "b::inner", "c", "c::d", "e"]
        );
    }
}
