//! Module declarations, imports and paths of a source file, read from its tokens.
//!
//! Tokens and not a syntax tree: so a path inside a macro's arguments counts like any other.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::slice::Iter;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// One thing that a module's text says, in the scope of that module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// Child modules that are declared here, with their text when it is inline.
    pub(super) children: Vec<Child>,
    /// Paths that begin with `crate`, `self` or `super`, and those of imports.
    pub(super) references: Vec<Reference>,
    /// Names that imports of this module give to paths.
    pub(super) imports: Vec<Import>,
    /// Paths whose every item is imported.
    pub(super) globs: Vec<Vec<String>>,
    /// Names of the items that are written here.
    pub(super) items: BTreeSet<String>,
    /// Names of macros that `#[macro_export]` puts into the crate's root.
    pub(super) exported_macros: Vec<String>,
}

/// A declaration of a child module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) name: String,
    /// The value of its `#[path]`.
    pub(super) path: Option<String>,
    /// Its text, when that is written in this file.
    pub(super) inline: Option<Scope>,
}

/// A path in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// A name and the path it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) name: String,
    pub(super) path: Vec<String>,
}

/// Reads the text of a module.
pub(super) fn scan(text: TokenStream) -> Scope {
    let mut scope = Scope::default();
    scan_level(text, Level::Items, &mut scope);
    scope
}

/// Whether an import at this level gives a name to the module or only to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Items,
    Inside,
}

/// Attributes that were read and whose item comes next.
#[derive(Debug, Default)]
struct Pending {
    path: Option<String>,
    is_macro_export: bool,
}

type Tokens<'a> = Peekable<Iter<'a, TokenTree>>;

fn scan_level(text: TokenStream, level: Level, scope: &mut Scope) {
    let tokens: Vec<TokenTree> = text.into_iter().collect();
    let mut tokens = tokens.iter().peekable();
    let mut pending = Pending::default();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                match attribute(&mut tokens, &mut pending, scope) {
                    Attribute::Other => {}
                    Attribute::TestItem => {
                        skip_item(&mut tokens);
                        pending = Pending::default();
                    }
                    Attribute::TestFile => return,
                }
            }
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "mod" => module(&mut tokens, &mut pending, scope),
                "use" if !is_precise_capture(&tokens) => {
                    let mut trees = Vec::new();
                    use_tree(&mut tokens, &[], &mut trees);
                    for tree in trees {
                        record_use(tree, level, scope);
                    }
                }
                "pub" => skip_visibility(&mut tokens),
                "macro_rules" => {
                    tokens.next();
                    if let Some(TokenTree::Ident(name)) = tokens.next() {
                        scope.items.insert(name.to_string());
                        if std::mem::take(&mut pending).is_macro_export {
                            scope.exported_macros.push(name.to_string());
                        }
                    }
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                    if let Some(TokenTree::Ident(name)) = tokens.peek() {
                        scope.items.insert(name.to_string());
                    }
                }
                first @ ("crate" | "self" | "super") if at_colons(&tokens) => {
                    let line = ident.span().start().line;
                    let path = path(first, &mut tokens);
                    scope.references.push(Reference { path, line });
                }
                _ => {}
            },
            TokenTree::Group(group) => scan_level(group.stream(), Level::Inside, scope),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The meaning of an attribute for the text that follows.
enum Attribute {
    Other,
    /// The next item is for tests only.
    TestItem,
    /// The whole file or block is for tests only.
    TestFile,
}

fn attribute(tokens: &mut Tokens<'_>, pending: &mut Pending, scope: &mut Scope) -> Attribute {
    let is_inner = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == '!');
    if is_inner {
        tokens.next();
    }
    let Some(TokenTree::Group(group)) = tokens.peek() else {
        return Attribute::Other;
    };
    if group.delimiter() != Delimiter::Bracket {
        return Attribute::Other;
    }
    let words: Vec<TokenTree> = group.stream().into_iter().collect();
    tokens.next();
    let name = words.first().map(ToString::to_string).unwrap_or_default();
    match (name.as_str(), words.get(1..).unwrap_or_default()) {
        ("test", []) => return Attribute::TestItem,
        ("cfg", [TokenTree::Group(condition)]) if is_for_tests(condition) => {
            return if is_inner {
                Attribute::TestFile
            } else {
                Attribute::TestItem
            };
        }
        ("path", [_, TokenTree::Literal(path)]) => pending.path = string(&path.to_string()),
        ("macro_export", _) => pending.is_macro_export = true,
        ("doc", _) => {}
        _ => paths_in_strings(&words, scope),
    }
    Attribute::Other
}

/// Whether a condition holds in tests only: `test`, or `all` with it.
fn is_for_tests(condition: &Group) -> bool {
    let words: Vec<TokenTree> = condition.stream().into_iter().collect();
    match words.as_slice() {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(parts)] if word == "all" => {
            let parts: Vec<TokenTree> = parts.stream().into_iter().collect();
            parts
                .iter()
                .any(|part| matches!(part, TokenTree::Ident(word) if word == "test"))
        }
        _ => false,
    }
}

/// The paths that an attribute's strings name, as in `#[serde(with = "crate::hex")]`.
fn paths_in_strings(words: &[TokenTree], scope: &mut Scope) {
    for word in words {
        match word {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                paths_in_strings(&inner, scope);
            }
            TokenTree::Literal(literal) => {
                let Some(text) = string(&literal.to_string()) else {
                    continue;
                };
                let path: Vec<String> = text.split("::").map(str::to_owned).collect();
                if path.len() > 1 && matches!(path[0].as_str(), "crate" | "self" | "super") {
                    let line = literal.span().start().line;
                    scope.references.push(Reference { path, line });
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// The text of a plain string literal.
fn string(literal: &str) -> Option<String> {
    Some(literal.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// Passes over the item that an attribute stands before.
fn skip_item(tokens: &mut Tokens<'_>) {
    // An expression in braces ends these only with its semicolon.
    let mut needs_semicolon = false;
    while let Some(token) = tokens.peek() {
        match token {
            TokenTree::Punct(punct) if matches!(punct.as_char(), ';' | ',') => {
                let is_end = punct.as_char() == ';' || !needs_semicolon;
                tokens.next();
                if is_end {
                    return;
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                tokens.next();
                if !needs_semicolon {
                    return;
                }
            }
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                tokens.next();
                match word.as_str() {
                    "use" | "static" | "type" | "let" => needs_semicolon = true,
                    "const" => {
                        let is_function = matches!(tokens.peek(), Some(TokenTree::Ident(next))
                            if ["fn", "unsafe", "extern", "async"].iter().any(|word| next == word));
                        needs_semicolon |= !is_function;
                    }
                    // A macro's or a struct's generic arguments do not come back here.
                    "fn" | "impl" | "struct" | "enum" | "trait" | "mod" | "union" => {
                        skip_to_body(tokens);
                        return;
                    }
                    _ => {}
                }
            }
            _ => {
                tokens.next();
            }
        }
    }
}

/// Passes over a signature with its body, or with its semicolon.
fn skip_to_body(tokens: &mut Tokens<'_>) {
    for token in tokens.by_ref() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            _ => {}
        }
    }
}

/// Passes over `(crate)` and the like after `pub`: a restriction is no import.
fn skip_visibility(tokens: &mut Tokens<'_>) {
    let Some(TokenTree::Group(group)) = tokens.peek() else {
        return;
    };
    let first = group.stream().into_iter().next();
    let is_restriction = matches!(&first, Some(TokenTree::Ident(word))
        if ["crate", "self", "super", "in"].iter().any(|known| word == known));
    if group.delimiter() == Delimiter::Parenthesis && is_restriction {
        tokens.next();
    }
}

/// Whether `use` opens the list of captured lifetimes of an `impl Trait`.
fn is_precise_capture(tokens: &Tokens<'_>) -> bool {
    matches!(tokens.clone().next(), Some(TokenTree::Punct(punct)) if punct.as_char() == '<')
}

fn module(tokens: &mut Tokens<'_>, pending: &mut Pending, scope: &mut Scope) {
    let mut ahead = tokens.clone();
    let Some(TokenTree::Ident(name)) = ahead.next() else {
        return;
    };
    let inline = match ahead.next() {
        Some(TokenTree::Punct(punct)) if punct.as_char() == ';' => None,
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            Some(scan(group.stream()))
        }
        _ => return,
    };
    *tokens = ahead;
    scope.children.push(Child {
        name: name.to_string(),
        path: std::mem::take(pending).path,
        inline,
    });
}

/// Whether `::` comes next.
fn at_colons(tokens: &Tokens<'_>) -> bool {
    let mut ahead = tokens.clone();
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    is_colon(ahead.next()) && is_colon(ahead.next())
}

/// The rest of a path whose first word was read.
fn path(first: &str, tokens: &mut Tokens<'_>) -> Vec<String> {
    let mut path = vec![first.to_owned()];
    while at_colons(tokens) {
        let mut ahead = tokens.clone();
        let (_, _) = (ahead.next(), ahead.next());
        let Some(TokenTree::Ident(word)) = ahead.next() else {
            break;
        };
        path.push(word.to_string());
        *tokens = ahead;
    }
    path
}

/// One leaf of a tree of imports.
struct Leaf {
    path: Vec<String>,
    name: Option<String>,
    is_glob: bool,
    line: usize,
}

/// Reads one tree of imports, up to the comma or semicolon behind it.
fn use_tree(tokens: &mut Tokens<'_>, prefix: &[String], leaves: &mut Vec<Leaf>) {
    let mut path = prefix.to_vec();
    let mut line = 0;
    let mut name = None;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            TokenTree::Punct(punct) if punct.as_char() == '*' => {
                leaves.push(Leaf {
                    path,
                    name: None,
                    is_glob: true,
                    line: punct.span().start().line,
                });
                skip_to_separator(tokens);
                return;
            }
            TokenTree::Ident(word) if word == "as" => {
                name = tokens.next().map(ToString::to_string);
            }
            TokenTree::Ident(word) => {
                line = word.span().start().line;
                // `{self}` names the module before the braces.
                if word != "self" || path.is_empty() {
                    path.push(word.to_string());
                }
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut inner = inner.iter().peekable();
                while inner.peek().is_some() {
                    use_tree(&mut inner, &path, leaves);
                }
                skip_to_separator(tokens);
                return;
            }
            // The comma or the semicolon.
            TokenTree::Punct(_) => break,
            TokenTree::Literal(_) => return,
        }
    }
    if path.is_empty() {
        return;
    }
    let name = name.or_else(|| path.last().cloned());
    leaves.push(Leaf {
        path,
        name,
        is_glob: false,
        line,
    });
}

fn skip_to_separator(tokens: &mut Tokens<'_>) {
    for token in tokens.by_ref() {
        if matches!(token, TokenTree::Punct(punct) if matches!(punct.as_char(), ';' | ',')) {
            return;
        }
    }
}

fn record_use(leaf: Leaf, level: Level, scope: &mut Scope) {
    if level == Level::Items {
        if leaf.is_glob {
            scope.globs.push(leaf.path.clone());
        } else if let Some(name) = leaf.name {
            let path = leaf.path.clone();
            scope.imports.push(Import { name, path });
        }
    }
    scope.references.push(Reference {
        path: leaf.path,
        line: leaf.line,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(text: &str) -> Vec<String> {
        let scope = scan(text.parse().unwrap());
        let paths = scope.references.iter();
        paths
            .map(|reference| format!("{} {}", reference.line, reference.path.join("::")))
            .collect()
    }

    #[test]
    fn grouped_imports_are_told_apart() {
        assert_eq!(
            references("use crate::{a::{self, B as C},\n d::*};\nuse super::super::e;"),
            [
                "1 crate::a",
                "1 crate::a::B",
                "2 crate::d",
                "3 super::super::e"
            ]
        );
    }

    #[test]
    fn paths_in_code_and_in_macros_count() {
        assert_eq!(
            references(
                "fn f() -> crate::a::B {\n assert!(super::c::<u8>(), \"{}\", [crate::d::E]) }"
            ),
            ["1 crate::a::B", "2 super::c", "2 crate::d::E"]
        );
        assert_eq!(
            references("macro_rules! m { () => { $crate::a::b!() } }"),
            ["1 crate::a::b"]
        );
        assert_eq!(
            references("#[serde(with = \"crate::hex\")] struct S;"),
            ["1 crate::hex"]
        );
    }

    #[test]
    fn restrictions_of_visibility_do_not_count() {
        assert_eq!(
            references("pub(in crate::a) struct S(pub(super) crate::b::T);"),
            ["1 crate::b::T"]
        );
    }

    #[test]
    fn code_for_tests_does_not_count() {
        let text = "
            #[cfg(test)] use crate::a;
            #[cfg(all(test, unix))] #[allow(x)] mod tests { use crate::b; }
            #[cfg(test)] const A: T = crate::c::T { a: 1 };
            #[test] fn t() -> u8 { crate::d() }
            struct S { #[cfg(test)] x: crate::e::X, y: crate::f::Y }
            #[cfg(test)] impl<T> S<T> { fn g() { crate::g() } }
            #[cfg(test)] pub(crate) const fn h() { crate::h() }
            #[cfg(not(test))] use crate::i;";
        assert_eq!(references(text), ["6 crate::f::Y", "9 crate::i"]);
        assert_eq!(
            references("#![cfg(test)] use crate::a;"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn modules_are_found_with_their_paths_and_texts() {
        let scope = scan(
            "pub mod a; #[cfg(x)] #[path = \"no.rs\"] mod b; mod c { mod d; }"
                .parse()
                .unwrap(),
        );
        let names: Vec<_> = scope
            .children
            .iter()
            .map(|child| (child.name.as_str(), child.path.as_deref()))
            .collect();
        assert_eq!(names, [("a", None), ("b", Some("no.rs")), ("c", None)]);
        assert_eq!(
            scope.children[2].inline.as_ref().unwrap().children[0].name,
            "d"
        );
    }
}
