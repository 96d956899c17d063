//! The core's modules form no cycle, so they can be read one by one.
//!
//! Reads the top-level modules of `annals` and the paths that begin with `crate::`, outside of
//! tests and comments. Names that `lib.rs` re-exports count as their module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Names that follow `crate::` in a source, the first segment of each path.
fn first_segments(source: &str) -> BTreeSet<String> {
    let code: String = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found = BTreeSet::new();
    for (at, path) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            None => found.extend(identifier(rest)),
            Some(group) => found.extend(group_members(group)),
        }
    }
    found
}

fn identifier(text: &str) -> Option<String> {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    let name: String = text.trim_start().chars().take_while(is_part).collect();
    Some(name).filter(|name| !name.is_empty())
}

/// The first segments of the members of `{a, b::c, d::{e, f}}`, after its first brace.
fn group_members(group: &str) -> Vec<String> {
    let (mut depth, mut members, mut start) = (1, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if (c == ',' && depth == 1) || depth == 0 {
            members.extend(identifier(&group[start..at]));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    members
}

/// Modules and re-exported names of `lib.rs`, each with its module.
fn names(lib: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in lib.lines() {
        let declared = line.strip_prefix("pub ").unwrap_or(line);
        if let Some(module) = declared.strip_prefix("mod ") {
            let module = module.trim_end_matches(';').to_owned();
            names.insert(module.clone(), module);
        } else if let Some((module, rest)) = declared
            .strip_prefix("use ")
            .and_then(|path| path.split_once("::"))
        {
            let rest = rest.trim_end_matches(';').trim_matches(['{', '}']);
            for name in rest.split(',').filter_map(identifier) {
                names.insert(name, module.to_owned());
            }
        }
    }
    names
}

fn visit(folder: &Path, read: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            visit(&path, read);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            read(&path);
        }
    }
}

fn graph() -> Graph {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = names(&std::fs::read_to_string(src.join("lib.rs")).unwrap());
    let mut graph = Graph::new();
    visit(&src, &mut |path| {
        let below = path.strip_prefix(&src).unwrap();
        let module = below.iter().next().unwrap().to_str().unwrap();
        let module = module.trim_end_matches(".rs");
        if module == "lib" {
            return;
        }
        let source = std::fs::read_to_string(path).unwrap();
        let targets = first_segments(&source);
        let targets = targets.iter().filter_map(|name| names.get(name).cloned());
        let targets = targets.filter(|target| target != module);
        graph.entry(module.to_owned()).or_default().extend(targets);
    });
    graph
}

/// The modules that are in a cycle or depend on one: those left after repeatedly removing modules
/// without dependencies.
fn entangled(mut graph: Graph) -> Graph {
    loop {
        let free: Vec<String> = graph
            .iter()
            .filter(|(_, targets)| targets.is_empty())
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            return graph;
        }
        for module in free {
            graph.remove(&module);
            for targets in graph.values_mut() {
                targets.remove(&module);
            }
        }
    }
}

#[test]
fn the_modules_of_the_core_form_no_cycle() {
    let graph = graph();
    // The graph is not empty by mistake.
    assert!(graph["journal"].contains("store"), "{graph:?}");
    assert!(graph["facade"].contains("layout"), "{graph:?}");
    let left = entangled(graph);
    assert!(left.is_empty(), "in a cycle, or above one: {left:#?}");
}

#[test]
fn a_cycle_is_found() {
    let graph = Graph::from([
        ("a".into(), ["b".into()].into()),
        ("b".into(), ["a".into(), "c".into()].into()),
        ("c".into(), [].into()),
    ]);
    assert_eq!(entangled(graph).into_keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn paths_are_read_out_of_code() {
    let source = "use crate::{Error, items::{Item, Key}, log};\n// crate::comment\nlet x = crate::journal::Y;\nannals_crate::no";
    let found: Vec<String> = first_segments(source).into_iter().collect();
    assert_eq!(found, ["Error", "items", "journal", "log"]);
}
