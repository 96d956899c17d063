//! The public items of a crate, and the lines that describe them.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::quote;
use syn::visit::Visit;
use syn::{
    Attribute, Fields, FnArg, Generics, ImplItem, Item, ItemImpl, ItemMacro, Pat, Signature,
    TraitItem, parse_quote,
};

use super::print::text;
use super::source::{Crate, Target, head, imports, is_public, join};

/// Attributes that are part of the API.
const SHOWN: [&str; 6] = [
    "cfg",
    "must_use",
    "non_exhaustive",
    "deprecated",
    "async_trait",
    "proc_macro_derive",
];

type Definition = (String, String);

pub(super) struct Listing<'a> {
    source: &'a Crate,
    /// Where each public item can be reached, with the `cfg` of the way.
    paths: BTreeMap<Definition, BTreeSet<(usize, String, String)>>,
    /// Private types that a public alias names, and its path.
    aliased: BTreeMap<Definition, String>,
    /// Each public path, its line, and the lines below.
    groups: BTreeMap<(String, String), BTreeSet<String>>,
    counts: [usize; 4],
}

impl<'a> Listing<'a> {
    pub(super) fn new(source: &'a Crate) -> Self {
        let (paths, groups) = (BTreeMap::new(), BTreeMap::new());
        let aliased = BTreeMap::new();
        let mut listing = Self {
            source,
            paths,
            aliased,
            groups,
            counts: [0; 4],
        };
        listing.walk("", &source.name, "");
        for (definition, paths) in listing.paths.clone() {
            let mut paths = paths.into_iter();
            let (_, shortest, cfg) = paths.next().unwrap();
            listing.describe(&definition, &shortest, &cfg);
            for (_, other, cfg) in paths {
                listing.line(&other, format!("use {other} = {shortest}{cfg}"));
            }
        }
        for (module, items) in &source.modules {
            for item in items {
                if let Item::Impl(it) = item {
                    listing.describe_impl(module, it);
                }
            }
        }
        listing
    }

    pub(super) fn to_text(&self) -> String {
        let [structs, enums, traits, aliases] = self.counts;
        let mut listing = format!(
            "# {}: {} public types ({structs} structs, {enums} enums, {traits} traits, {aliases} aliases)\n",
            self.source.name,
            self.counts.iter().sum::<usize>(),
        );
        for ((_, line), below) in &self.groups {
            listing += &format!("{line}\n");
            below
                .iter()
                .for_each(|line| listing += &format!("    {line}\n"));
        }
        listing
    }

    fn path(&self, definition: &Definition) -> Option<String> {
        let shortest = self.paths.get(definition).and_then(BTreeSet::first);
        let path = shortest.map(|(_, path, _)| path);
        path.or_else(|| self.aliased.get(definition)).cloned()
    }

    fn line(&mut self, path: &str, line: String) {
        self.groups.entry((path.to_owned(), line)).or_default();
    }

    /// Finds the public items of a module that is reached as `public`.
    fn walk(&mut self, module: &str, public: &str, cfg: &str) {
        for item in &self.source.modules[module] {
            if let Item::Use(it) = item {
                if !is_public(&it.vis) || is_hidden(&it.attrs) {
                    continue;
                }
                let cfg = format!("{cfg}{}", cfgs(&it.attrs));
                for import in imports(&it.tree, &[]) {
                    for target in self.source.resolve(module, &import.path) {
                        let path = match import.name.as_str() {
                            "*" => public.to_owned(),
                            name => join(public, name),
                        };
                        match target {
                            Target::Module(target) => self.walk(&target, &path, &cfg),
                            Target::Item(module, name) => self.publish((module, name), path, &cfg),
                            Target::External(of) => {
                                self.line(&path, format!("use {path} = {of}{cfg}"));
                            }
                        }
                    }
                }
            } else if let Some((name, visibility, attributes)) = head(item) {
                if !is_public(&visibility) || is_hidden(attributes) {
                    continue;
                }
                let path = join(public, &name);
                if let Item::Mod(_) = item {
                    let cfg = format!("{cfg}{}", cfgs(attributes));
                    self.walk(&join(module, &name), &path, &cfg);
                } else {
                    self.publish((module.to_owned(), name), path, cfg);
                }
            }
        }
    }

    fn publish(&mut self, definition: Definition, path: String, cfg: &str) {
        let items = self.source.modules[&definition.0].iter().filter_map(head);
        let mut named = items.filter(|(name, ..)| *name == definition.1);
        if named.all(|(.., attributes)| !is_hidden(attributes)) {
            let length = path.matches("::").count();
            self.paths
                .entry(definition)
                .or_default()
                .insert((length, path, cfg.to_owned()));
        }
    }

    fn describe(&mut self, (module, name): &Definition, path: &str, cfg: &str) {
        for item in &self.source.modules[module] {
            if let Some((own, visibility, attributes)) = head(item)
                && own == *name
                && is_public(&visibility)
            {
                let (line, mut members) = self.item_lines(item, path, module);
                members.extend(derives(attributes).map(|derived| format!("impl {derived}")));
                let line = format!("{line}{cfg}{}", shown(attributes));
                self.groups
                    .entry((path.to_owned(), line))
                    .or_default()
                    .extend(members);
            }
        }
    }

    fn item_lines(&mut self, item: &Item, path: &str, module: &str) -> (String, Vec<String>) {
        let none = Vec::new();
        match item {
            Item::Struct(it) => {
                self.counts[0] += 1;
                let (generics, bounds) = generics(&it.generics);
                let is_open = it.fields.iter().all(|field| is_public(&field.vis));
                let rest = if is_open { "" } else { " { .. }" };
                (
                    format!("struct {path}{generics}{bounds}{rest}"),
                    fields(&it.fields),
                )
            }
            Item::Enum(it) => {
                self.counts[1] += 1;
                let (generics, bounds) = generics(&it.generics);
                let variants = it.variants.iter().map(|variant| {
                    let mut bare = variant.clone();
                    bare.attrs.clear();
                    bare.fields.iter_mut().for_each(|field| field.attrs.clear());
                    format!("variant {}{}", text(bare), shown(&variant.attrs))
                });
                (format!("enum {path}{generics}{bounds}"), variants.collect())
            }
            Item::Trait(it) => {
                self.counts[2] += 1;
                let (generics, bounds) = generics(&it.generics);
                let supertraits = match text(&it.supertraits) {
                    none if none.is_empty() => none,
                    some => format!(": {some}"),
                };
                let members = it.items.iter().filter_map(trait_member).collect();
                (
                    format!("trait {path}{generics}{supertraits}{bounds}"),
                    members,
                )
            }
            Item::Type(it) => {
                self.counts[3] += 1;
                let mut named = Named::default();
                named.visit_type(&it.ty);
                for target in self
                    .source
                    .resolve(module, named.0.first().unwrap_or(&none))
                {
                    if let Target::Item(module, name) = target {
                        self.aliased.insert((module, name), path.to_owned());
                    }
                }
                let (generics, bounds) = generics(&it.generics);
                (
                    format!("type {path}{generics}{bounds} = {}", text(&it.ty)),
                    none,
                )
            }
            Item::Fn(it) => (signature(&it.sig, path), none),
            Item::Const(it) => (format!("const {path}: {}", text(&it.ty)), none),
            Item::Static(it) => (format!("static {path}: {}", text(&it.ty)), none),
            Item::Macro(it) => (self.macro_line(it, path, module), none),
            other => (format!("item {path} = {}", text(other)), none),
        }
    }

    /// The call of a macro that makes a type; its definition is a line of its own.
    fn macro_line(&mut self, call: &ItemMacro, path: &str, module: &str) -> String {
        self.counts[0] += 1;
        let name = text(&call.mac.path);
        for item in &self.source.modules[module] {
            if let Item::Macro(it) = item
                && it.ident.as_ref().is_some_and(|own| *own == name)
            {
                let rules = text(&it.mac.tokens);
                let path = join(&self.source.name, &name);
                self.line(&path, format!("macro {name} = {rules}"));
            }
        }
        let call = text(without_docs(call.mac.tokens.clone()));
        format!("{name}! {path} = {call}")
    }

    fn describe_impl(&mut self, module: &str, it: &ItemImpl) {
        let mut named = Named::default();
        named.visit_type(&it.self_ty);
        if let Some((_, path, _)) = &it.trait_ {
            named.visit_path(path);
        }
        let mut homes = Vec::new();
        for path in &named.0 {
            let mut home = None;
            for target in self.source.resolve(module, path) {
                if let Target::Item(module, name) = target {
                    // An impl that names something private cannot be used from outside.
                    let Some(path) = self.path(&(module, name)) else {
                        return;
                    };
                    home = Some(path);
                }
            }
            homes.push(home);
        }
        let is_plain = !text(&it.self_ty).contains(['<', '&', '[', '(']);
        let is_own = is_plain && homes.first().is_some_and(Option::is_some);
        let Some(home) = homes.into_iter().flatten().next() else {
            return;
        };
        let (generics, bounds) = generics(&it.generics);
        let of = text(&it.self_ty);
        let attributes = shown(&it.attrs);
        let mut lines = Vec::new();
        if let Some((not, path, _)) = &it.trait_ {
            let last = path.segments.last();
            let name = text(quote!(#not #last));
            let of = if is_own {
                String::new()
            } else {
                format!(" for {of}")
            };
            lines.push(format!("impl{generics} {name}{of}{bounds}{attributes}"));
        } else {
            let condition = match generics.contains(':') || !bounds.is_empty() {
                true => format!(" in impl{generics} {of}{bounds}"),
                false => String::new(),
            };
            let members = it.items.iter().filter_map(inherent_member);
            lines.extend(members.map(|line| format!("{line}{condition}{attributes}")));
        }
        let group = self
            .groups
            .iter_mut()
            .find(|((path, line), _)| *path == home && !line.starts_with("use "));
        group.unwrap().1.extend(lines);
    }
}

/// Every path that a type or trait names.
#[derive(Default)]
struct Named(Vec<Vec<String>>);

impl Visit<'_> for Named {
    fn visit_path(&mut self, path: &syn::Path) {
        self.0.push(
            path.segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect(),
        );
        syn::visit::visit_path(self, path);
    }
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| text(attribute) == "#[doc(hidden)]")
}

fn shown(attributes: &[Attribute]) -> String {
    let shown = attributes.iter().filter_map(|attribute| {
        let name = text(attribute.path());
        let is_shown = SHOWN.contains(&name.rsplit("::").next()?);
        // The words of `must_use` and `deprecated` may change.
        let is_list = matches!(attribute.meta, syn::Meta::List(_)) && name != "deprecated";
        let whole = if is_list {
            text(attribute)
        } else {
            format!("#[{name}]")
        };
        is_shown.then(|| format!(" {whole}"))
    });
    shown.collect()
}

fn cfgs(attributes: &[Attribute]) -> String {
    let cfgs = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"));
    cfgs.map(|cfg| format!(" {}", text(cfg))).collect()
}

fn derives(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    let derives = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("derive"));
    let lists = derives.filter_map(|derive| derive.meta.require_list().ok());
    let names = lists.flat_map(|list| {
        let names = text(&list.tokens);
        names.split(", ").map(str::to_owned).collect::<Vec<_>>()
    });
    names.map(|name| name.rsplit("::").next().unwrap_or_default().to_owned())
}

fn generics(generics: &Generics) -> (String, String) {
    let bounds = generics.where_clause.as_ref().map(text).unwrap_or_default();
    let bounds = if bounds.is_empty() {
        bounds
    } else {
        format!(" {bounds}")
    };
    (text(generics), bounds)
}

fn fields(fields: &Fields) -> Vec<String> {
    let public = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_public(&field.vis));
    let lines = public.map(|(n, field)| {
        let name = field
            .ident
            .as_ref()
            .map_or(n.to_string(), ToString::to_string);
        format!("pub {name}: {}{}", text(&field.ty), shown(&field.attrs))
    });
    lines.collect()
}

/// A signature by another name, without the patterns of its parameters.
fn signature(signature: &Signature, name: &str) -> String {
    let mut signature = signature.clone();
    for input in &mut signature.inputs {
        match input {
            FnArg::Receiver(own) if own.reference.is_none() => own.mutability = None,
            FnArg::Receiver(_) => {}
            FnArg::Typed(typed) => {
                typed.attrs.clear();
                *typed.pat = match &*typed.pat {
                    Pat::Ident(name) => {
                        let name = &name.ident;
                        parse_quote!(#name)
                    }
                    _ => parse_quote!(_),
                };
            }
        }
    }
    let own = format!("fn {}", signature.ident);
    text(&signature).replacen(&own, &format!("fn {name}"), 1)
}

fn trait_member(member: &TraitItem) -> Option<String> {
    let with = |line: String, has_default| match has_default {
        true => format!("{line} {{ .. }}"),
        false => line,
    };
    let (attributes, line) = match member {
        TraitItem::Fn(it) => {
            let line = signature(&it.sig, &it.sig.ident.to_string());
            (&it.attrs, with(line, it.default.is_some()))
        }
        TraitItem::Const(it) => {
            let line = format!("const {}: {}", it.ident, text(&it.ty));
            (&it.attrs, with(line, it.default.is_some()))
        }
        TraitItem::Type(it) => {
            let mut bare = it.clone();
            bare.attrs.clear();
            (&it.attrs, text(bare).trim_end_matches(';').to_owned())
        }
        _ => return None,
    };
    (!is_hidden(attributes)).then(|| format!("{line}{}", shown(attributes)))
}

fn inherent_member(member: &ImplItem) -> Option<String> {
    let (visibility, attributes, line) = match member {
        ImplItem::Fn(it) => (
            &it.vis,
            &it.attrs,
            signature(&it.sig, &it.sig.ident.to_string()),
        ),
        ImplItem::Const(it) => (
            &it.vis,
            &it.attrs,
            format!("const {}: {}", it.ident, text(&it.ty)),
        ),
        _ => return None,
    };
    let is_listed = is_public(visibility) && !is_hidden(attributes);
    is_listed.then(|| format!("{line}{}", shown(attributes)))
}

fn without_docs(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) if text(group.stream()).starts_with("doc =") => {
                kept.pop();
            }
            TokenTree::Group(group) => {
                let inner = without_docs(group.stream());
                kept.push(Group::new(group.delimiter(), inner).into());
            }
            token => kept.push(token),
        }
    }
    kept.into_iter().collect()
}
