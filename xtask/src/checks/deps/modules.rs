//! Compares the references among a crate's modules with its tables of layers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::graph::{self, Edges};
use super::resolve::resolve;
use super::source::{ModuleId, ROOT, Tree};
use super::table::Table;

/// A crate with fewer modules needs no table.
const NEEDS_TABLE: usize = 2;

/// One reference between two modules, and where it stands.
#[derive(Debug)]
struct Edge {
    from: ModuleId,
    to: ModuleId,
    place: String,
}

/// The violations of a crate in the directory `dir`, each as one line.
pub(super) fn violations(name: &str, dir: &Path, tree: &Tree) -> Vec<String> {
    let edges = edges(dir, tree);
    let mut found = Vec::new();
    if tree.modules[ROOT].table.is_none() && tree.modules[ROOT].children.len() >= NEEDS_TABLE {
        found.push(format!("{name}: lib.rs has no table under `# Layers`"));
    }
    found.extend(through_root(dir, tree));
    for edge in edges.iter().filter(|edge| edge.to == ROOT) {
        found.push(format!(
            "{}: `{}` uses an item that lib.rs defines, above all modules",
            edge.place,
            tree.path(edge.from)
        ));
    }
    for (parent, module) in tree.modules.iter().enumerate() {
        match &module.table {
            Some(table) => {
                found.extend(table_and_modules(name, tree, parent, table));
                found.extend(upward_imports(tree, parent, table, &edges));
            }
            None => found.extend(circles(name, tree, parent, &edges)),
        }
    }
    found
}

fn edges(dir: &Path, tree: &Tree) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (from, module) in tree.modules.iter().enumerate().skip(1) {
        for (file, reference) in &module.references {
            let targets: BTreeSet<_> = resolve(tree, from, &reference.path).into_iter().collect();
            for to in targets {
                let place = format!(
                    "{}:{}",
                    dir.join("src").join(file).display(),
                    reference.line
                );
                edges.push(Edge { from, to, place });
            }
        }
    }
    edges
}

/// References to what `lib.rs` only passes on.
fn through_root(dir: &Path, tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (from, module) in tree.modules.iter().enumerate().skip(1) {
        for (file, reference) in &module.references {
            let Some(name) = name_in_root(tree, from, &reference.path) else {
                continue;
            };
            if tree.modules[ROOT].imports.contains_key(name) {
                let defines = resolve(tree, from, &reference.path);
                let defines = defines.last().map_or_else(String::new, |&id| tree.path(id));
                found.push(format!(
                    "{}:{}: `{name}` comes through lib.rs, `{defines}` defines it",
                    dir.join("src").join(file).display(),
                    reference.line
                ));
            }
        }
    }
    found
}

/// The name that a path looks up in the crate's root, if that is no module.
fn name_in_root<'a>(tree: &Tree, from: ModuleId, path: &'a [String]) -> Option<&'a str> {
    let mut at = from;
    for word in path {
        at = match word.as_str() {
            "crate" => ROOT,
            "self" => at,
            "super" => tree.modules[at].parent?,
            name if at == ROOT => {
                let is_module = tree.modules[ROOT].children.contains_key(name);
                return (!is_module).then_some(name);
            }
            _ => return None,
        };
    }
    None
}

/// Modules that the table lacks, and names in it that are no modules.
fn table_and_modules(name: &str, tree: &Tree, parent: ModuleId, table: &Table) -> Vec<String> {
    let children = &tree.modules[parent].children;
    let place = match parent {
        ROOT => name.to_owned(),
        _ => format!("{name}: {}", tree.path(parent)),
    };
    let mut found = Vec::new();
    for child in children.keys() {
        match table.modules().filter(|listed| listed == child).count() {
            0 => found.push(format!("{place}: `{child}` is not in the table of layers")),
            1 => {}
            _ => found.push(format!(
                "{place}: `{child}` is in the table of layers twice"
            )),
        }
    }
    for listed in table.modules() {
        if !children.contains_key(listed) {
            found.push(format!(
                "{place}: `{listed}` of the table of layers is no module"
            ));
        }
    }
    found
}

fn upward_imports(tree: &Tree, parent: ModuleId, table: &Table, edges: &[Edge]) -> Vec<String> {
    let row = |module: ModuleId| table.row(&tree.modules[module].name);
    let mut found = Vec::new();
    for edge in edges {
        let (Some(from), Some(to)) = (
            tree.child_towards(parent, edge.from),
            tree.child_towards(parent, edge.to),
        ) else {
            continue;
        };
        let (Some(from_row), Some(to_row)) = (row(from), row(to)) else {
            continue;
        };
        if from != to && to_row >= from_row {
            let where_it_stands = if to_row == from_row {
                "in the same layer"
            } else {
                "above it"
            };
            found.push(format!(
                "{}: `{}` imports `{}`, which stands {where_it_stands}",
                edge.place,
                tree.path(edge.from),
                tree.path(edge.to)
            ));
        }
    }
    found.dedup();
    found
}

/// Circles among the folders inside `parent`.
fn circles(name: &str, tree: &Tree, parent: ModuleId, edges: &[Edge]) -> Vec<String> {
    let children = &tree.modules[parent].children;
    let folders: BTreeSet<ModuleId> = children
        .values()
        .copied()
        .filter(|&child| !tree.modules[child].children.is_empty())
        .collect();
    if folders.len() < 2 {
        return Vec::new();
    }
    let mut graph = Edges::new();
    let mut places = BTreeMap::new();
    for edge in edges {
        let from = tree.child_towards(parent, edge.from);
        let to = tree.child_towards(parent, edge.to);
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            graph.entry(from).or_default().insert(to);
            places.entry((from, to)).or_insert(&edge.place);
        }
    }
    let describe = |circle: Vec<ModuleId>| {
        let next = circle.iter().cycle().skip(1);
        let steps: Vec<String> = circle
            .iter()
            .zip(next)
            .map(|(&from, &to)| {
                format!(
                    "`{}` imports `{}` ({})",
                    tree.path(from),
                    tree.path(to),
                    places[&(from, to)]
                )
            })
            .collect();
        format!("{name}: circle of folders: {}", steps.join(", "))
    };
    graph::circles(&graph, &folders)
        .into_iter()
        .map(describe)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::planted;
    use super::*;

    const LIB: &str = "\
//! # Layers
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `ground`, `words` | |
//! | 2 | `house` | |
mod ground;
mod house;
mod words;
";

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        violations("planted", Path::new("planted"), &planted(files))
    }

    #[test]
    fn downward_imports_are_accepted() {
        assert_eq!(
            check(&[
                ("lib.rs", LIB),
                ("ground.rs", "#[cfg(test)] mod tests { use crate::house; }"),
                ("words.rs", ""),
                ("house.rs", "use crate::{ground::A, words};"),
            ]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_planted_upward_import_is_named_with_its_line() {
        let found = check(&[
            ("lib.rs", LIB),
            ("ground.rs", "\nuse crate::house::Door;"),
            ("words.rs", "use super::ground;"),
            ("house.rs", ""),
        ]);
        assert_eq!(
            found,
            [
                "planted/src/ground.rs:2: `ground` imports `house`, which stands above it",
                "planted/src/words.rs:1: `words` imports `ground`, which stands in the same layer",
            ]
        );
    }

    #[test]
    fn an_import_inside_a_macro_and_through_a_reexport_is_found() {
        let with_reexport = format!("{LIB}pub use house::Door;");
        let found = check(&[
            ("lib.rs", &with_reexport),
            (
                "ground.rs",
                "fn f() { println!(\"{:?}\", [crate::Door::open()]); }",
            ),
            ("words.rs", ""),
            ("house.rs", "pub struct Door;"),
        ]);
        assert_eq!(
            found,
            [
                "planted/src/ground.rs:1: `Door` comes through lib.rs, `house` defines it",
                "planted/src/ground.rs:1: `ground` imports `house`, which stands above it",
            ]
        );
    }

    #[test]
    fn a_module_that_the_table_lacks_and_one_too_many_are_named() {
        let lib = LIB.replace("mod house;", "mod garden;");
        let found = check(&[
            ("lib.rs", &lib),
            ("ground.rs", ""),
            ("words.rs", ""),
            ("garden.rs", ""),
        ]);
        assert_eq!(
            found,
            [
                "planted: `garden` is not in the table of layers",
                "planted: `house` of the table of layers is no module",
            ]
        );
    }

    #[test]
    fn an_item_of_the_root_stands_above_all() {
        let lib = format!("{LIB}struct Own;");
        let found = check(&[
            ("lib.rs", &lib),
            ("ground.rs", "use crate::Own;"),
            ("words.rs", ""),
            ("house.rs", ""),
        ]);
        assert_eq!(
            found,
            [
                "planted/src/ground.rs:1: `ground` uses an item that lib.rs defines, above all modules"
            ]
        );
    }

    #[test]
    fn a_crate_without_a_table_is_named() {
        assert_eq!(
            check(&[("lib.rs", "mod a; mod b;"), ("a.rs", ""), ("b.rs", "")]),
            ["planted: lib.rs has no table under `# Layers`"]
        );
        assert_eq!(check(&[("lib.rs", "fn f() {}")]), Vec::<String>::new());
    }

    #[test]
    fn a_circle_of_nested_folders_is_named() {
        let found = check(&[
            ("lib.rs", LIB),
            ("ground.rs", ""),
            ("words.rs", ""),
            ("house/mod.rs", "mod cellar; mod roof; mod stairs;"),
            ("house/cellar/mod.rs", "mod wine; use super::stairs;"),
            ("house/cellar/wine.rs", ""),
            ("house/stairs.rs", "use super::roof::tiles;"),
            ("house/roof/mod.rs", "pub mod tiles;"),
            (
                "house/roof/tiles.rs",
                "use crate::house::cellar::wine::Bottle;",
            ),
        ]);
        assert_eq!(
            found,
            ["planted: circle of folders: \
                 `house::cellar` imports `house::stairs` (planted/src/house/cellar/mod.rs:1), \
                 `house::stairs` imports `house::roof` (planted/src/house/stairs.rs:1), \
                 `house::roof` imports `house::cellar` (planted/src/house/roof/tiles.rs:1)"]
        );
    }
}
