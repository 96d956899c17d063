//! The modules of a crate as `syn` reads them, and what a path in one of them means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::TokenTree;
use syn::{Attribute, Ident, Item, Meta, UseTree, Visibility, parse_quote};

use super::print::text;

/// A crate without its tests. A module is named by its path from the root, which is `""`.
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) modules: BTreeMap<String, Vec<Item>>,
}

/// What a path leads to.
pub(super) enum Target {
    Module(String),
    /// An item by its module and name.
    Item(String, String),
    /// Something of another crate.
    External(String),
}

/// One name of a `use`; `*` if it imports everything.
pub(super) struct Import {
    pub(super) name: String,
    pub(super) path: Vec<String>,
}

pub(super) fn join(module: &str, name: &str) -> String {
    match module {
        "" => name.to_owned(),
        _ => format!("{module}::{name}"),
    }
}

pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = text(&list.tokens);
            condition == "test" || condition.contains("doctest")
        }
        _ => false,
    })
}

/// Name, visibility and attributes of an item that has a name. A macro that makes a type names it
/// first.
pub(super) fn head(item: &Item) -> Option<(String, Visibility, &[Attribute])> {
    let (name, visibility, attributes) = match item {
        Item::Const(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Enum(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Fn(it) => (&it.sig.ident, &it.vis, &it.attrs),
        Item::Mod(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Static(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Struct(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Trait(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Type(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Union(it) => (&it.ident, &it.vis, &it.attrs),
        Item::Macro(it) if it.ident.is_none() => {
            let words = it.mac.tokens.clone().into_iter();
            let mut words = words.filter(|word| matches!(word, TokenTree::Ident(_)));
            let name = words.next()?.to_string();
            let is_type = name.starts_with(char::is_uppercase);
            return is_type.then(|| (name, parse_quote!(pub), it.attrs.as_slice()));
        }
        _ => return None,
    };
    Some((name.to_string(), visibility.clone(), attributes))
}

pub(super) fn imports(tree: &UseTree, path: &[String]) -> Vec<Import> {
    let with = |name: &Ident| [path, &[name.to_string()]].concat();
    let import = |name: String, path| vec![Import { name, path }];
    match tree {
        UseTree::Path(tree) => imports(&tree.tree, &with(&tree.ident)),
        UseTree::Name(tree) if tree.ident == "self" => {
            import(path.last().cloned().unwrap_or_default(), path.to_vec())
        }
        UseTree::Name(tree) => import(tree.ident.to_string(), with(&tree.ident)),
        UseTree::Rename(tree) if tree.ident == "self" => {
            import(tree.rename.to_string(), path.to_vec())
        }
        UseTree::Rename(tree) => import(tree.rename.to_string(), with(&tree.ident)),
        UseTree::Glob(_) => import("*".to_owned(), path.to_vec()),
        UseTree::Group(group) => {
            let trees = group.items.iter();
            trees.flat_map(|tree| imports(tree, path)).collect()
        }
    }
}

impl Crate {
    pub(super) fn read(name: &str, root: &Path) -> Self {
        let mut modules = BTreeMap::new();
        let file = parse(root);
        add("", file, root.parent().unwrap(), &mut modules);
        let name = name.replace('-', "_");
        Self { name, modules }
    }

    /// What a path means in a module: several things if namespaces share the name.
    pub(super) fn resolve(&self, module: &str, path: &[String]) -> Vec<Target> {
        self.follow(module, path, &[])
    }

    /// `seen`: the names being resolved, because modules may import each other's names.
    fn follow(&self, module: &str, path: &[String], seen: &[(&str, &str)]) -> Vec<Target> {
        let [first, rest @ ..] = path else {
            return vec![Target::Module(module.to_owned())];
        };
        let parent = || module.rsplit_once("::").map_or("", |(parent, _)| parent);
        match first.as_str() {
            "crate" => return self.follow("", rest, seen),
            "self" => return self.follow(module, rest, seen),
            "super" => return self.follow(parent(), rest, seen),
            _ => {}
        }
        let inner = join(module, first);
        if !rest.is_empty() && self.modules.contains_key(&inner) {
            return self.follow(&inner, rest, seen);
        }
        let found = self.named(module, first, seen);
        if found.is_empty() {
            return match *first == self.name {
                true => self.follow("", rest, seen),
                false => vec![Target::External(path.join("::"))],
            };
        }
        let follow = |target| match target {
            Target::Module(module) => self.follow(&module, rest, seen),
            // An associated item, or a variant: the type is what counts.
            Target::Item(..) => vec![target],
            Target::External(base) => {
                vec![Target::External([&[base][..], rest].concat().join("::"))]
            }
        };
        found.into_iter().flat_map(follow).collect()
    }

    fn named(&self, module: &str, name: &str, seen: &[(&str, &str)]) -> Vec<Target> {
        if seen.contains(&(module, name)) {
            return Vec::new();
        }
        let seen = &[seen, &[(module, name)]].concat();
        let mut found = Vec::new();
        let mut globs = Vec::new();
        for item in &self.modules[module] {
            match item {
                Item::Use(import) => {
                    for import in imports(&import.tree, &[]) {
                        if import.name == "*" {
                            globs.push(import.path);
                        } else if import.name == name && import.path != [name] {
                            found.extend(self.follow(module, &import.path, seen));
                        }
                    }
                }
                Item::Mod(it) if it.ident == name => {
                    found.push(Target::Module(join(module, name)));
                }
                item => {
                    if head(item).is_some_and(|(own, ..)| own == name) {
                        found.push(Target::Item(module.to_owned(), name.to_owned()));
                    }
                }
            }
        }
        if found.is_empty() {
            for glob in globs {
                for target in self.follow(module, &glob, seen) {
                    if let Target::Module(source) = target {
                        found.extend(self.named(&source, name, seen));
                    }
                }
            }
        }
        found
    }
}

fn parse(file: &Path) -> Vec<Item> {
    let source = std::fs::read_to_string(file).unwrap();
    let parsed = syn::parse_file(&source);
    parsed
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()))
        .items
}

fn add(
    module: &str,
    mut items: Vec<Item>,
    folder: &Path,
    modules: &mut BTreeMap<String, Vec<Item>>,
) {
    items.retain(|item| match item {
        Item::Use(it) => !is_test(&it.attrs),
        Item::Impl(it) => !is_test(&it.attrs),
        item => !head(item).is_some_and(|(.., attributes)| is_test(attributes)),
    });
    for item in &mut items {
        if let Item::Mod(it) = item {
            let name = it.ident.to_string();
            let inner = folder.join(&name);
            let content = match it.content.take() {
                Some((_, items)) => items,
                None => parse(&module_file(&inner)),
            };
            add(&join(module, &name), content, &inner, modules);
        }
    }
    modules.insert(module.to_owned(), items);
}

fn module_file(inner: &Path) -> PathBuf {
    let flat = inner.with_extension("rs");
    if flat.exists() {
        flat
    } else {
        inner.join("mod.rs")
    }
}
