//! From a path to the module that defines what it names.

use super::source::{ModuleId, ROOT, Tree};

/// Imports of imports are followed this far; more of them are a circle.
const DEPTH: usize = 16;

/// The modules that a path relies on, as seen from `from`: those whose imports it goes
/// through, and last the one that defines the item. Empty for paths into other crates.
///
/// The crate's root is among them only where it defines the item itself.
pub(super) fn resolve(tree: &Tree, from: ModuleId, path: &[String]) -> Vec<ModuleId> {
    let mut through = Vec::new();
    let Some(end) = follow(tree, from, path, DEPTH, &mut through) else {
        return Vec::new();
    };
    through.retain(|&module| module != ROOT);
    through.push(end.module);
    through
}

/// Where a path ends: at a module, or at an item in it.
#[derive(Debug, Clone, Copy)]
struct End {
    module: ModuleId,
    is_item: bool,
}

fn follow(
    tree: &Tree,
    from: ModuleId,
    path: &[String],
    depth: usize,
    through: &mut Vec<ModuleId>,
) -> Option<End> {
    let depth = depth.checked_sub(1)?;
    let (first, rest) = path.split_first()?;
    let mut end = match first.as_str() {
        "crate" => module(ROOT),
        "self" => module(from),
        "super" => module(tree.modules[from].parent?),
        name => step(tree, from, name, depth, through)?,
    };
    for name in rest {
        if end.is_item {
            break;
        }
        end = match name.as_str() {
            "self" => end,
            "super" => module(tree.modules[end.module].parent?),
            name => step(tree, end.module, name, depth, through).unwrap_or(End {
                module: end.module,
                is_item: true,
            }),
        };
    }
    Some(end)
}

fn module(module: ModuleId) -> End {
    End {
        module,
        is_item: false,
    }
}

/// A name in a module: a child, an import, or an item behind a glob; `None` for others.
fn step(
    tree: &Tree,
    at: ModuleId,
    name: &str,
    depth: usize,
    through: &mut Vec<ModuleId>,
) -> Option<End> {
    let own = &tree.modules[at];
    if let Some(&child) = own.children.get(name) {
        return Some(module(child));
    }
    if own.items.contains(name) {
        return None;
    }
    if let Some(path) = own.imports.get(name) {
        // An import of a crate of the same name, as in `use libc;`.
        if path.len() == 1 && path[0] == name {
            return None;
        }
        through.push(at);
        return follow(tree, at, path, depth, through);
    }
    if at == ROOT
        && let Some(&module) = tree.exported_macros.get(name)
    {
        return Some(End {
            module,
            is_item: true,
        });
    }
    for glob in &own.globs {
        let mut tried = Vec::new();
        let Some(end) = follow(tree, at, glob, depth, &mut tried) else {
            continue;
        };
        if end.is_item || end.module == at {
            continue;
        }
        let target = &tree.modules[end.module];
        if target.items.contains(name) {
            through.push(at);
            return Some(End {
                module: end.module,
                is_item: true,
            });
        }
        if depth > 0
            && let Some(found) = step(tree, end.module, name, depth - 1, &mut tried)
        {
            through.push(at);
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::planted;
    use super::*;

    fn resolved(tree: &Tree, from: &str, path: &str) -> Vec<String> {
        let from = (0..tree.modules.len())
            .find(|&id| tree.path(id) == from)
            .unwrap();
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        let found = resolve(tree, from, &path);
        found.into_iter().map(|id| tree.path(id)).collect()
    }

    #[test]
    fn paths_lead_to_the_module_that_defines_the_item() {
        let tree = planted(&[
            (
                "lib.rs",
                "mod a; mod b; pub use a::Item; pub use b::*; pub struct Own;",
            ),
            (
                "a.rs",
                "pub struct Item; #[macro_export] macro_rules! m { () => {} }",
            ),
            (
                "b/mod.rs",
                "mod inner; pub use inner::Deep; use std::fmt; use crate::a::Item as Renamed;",
            ),
            ("b/inner.rs", "pub struct Deep;"),
        ]);
        assert_eq!(resolved(&tree, "a", "crate::Item"), ["a"]);
        assert_eq!(resolved(&tree, "a", "crate::m"), ["a"]);
        assert_eq!(resolved(&tree, "a", "crate::Deep"), ["b::inner"]);
        assert_eq!(resolved(&tree, "a", "crate::Own"), ["crate"]);
        assert_eq!(resolved(&tree, "a", "crate::b::Deep"), ["b", "b::inner"]);
        assert_eq!(
            resolved(&tree, "b::inner", "super::Renamed::new"),
            ["b", "a"]
        );
        assert_eq!(resolved(&tree, "b::inner", "super::super::a"), ["a"]);
        assert_eq!(
            resolved(&tree, "b", "std::fmt::Display"),
            Vec::<String>::new()
        );
    }
}
