//! Imports of a crate point one way: files that need each other stand in one folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, File, ItemMod, ItemUse, UseTree, Visibility};

/// A module, by the names on its path from the crate's root.
type Module = Vec<String>;

/// The paths that one file names, outside of its tests.
#[derive(Default)]
struct Paths(Vec<Module>);

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

impl Paths {
    fn of(file: &File) -> Self {
        let mut paths = Self::default();
        paths.visit_file(file);
        paths
    }

    fn add_tree(&mut self, before: &Module, tree: &UseTree) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Module>();
        match tree {
            UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.0.push(with(&name.ident)),
            UseTree::Rename(rename) => self.0.push(with(&rename.ident)),
            UseTree::Glob(_) => self.0.push(before.clone()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(before, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if !is_for_tests(&import.attrs) {
            self.add_tree(&Module::new(), &import.tree);
        }
    }

    // `pub(super)` names a module and takes nothing from it.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// Returns the module of a file. `None` for the roots of a crate.
fn module_of(file: &Path, source: &Path) -> Option<Module> {
    let relative = file.strip_prefix(source).unwrap().with_extension("");
    let names: Module = relative.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    (!matches!(&*names, [root] if root == "lib" || root == "main")).then_some(names)
}

/// Returns the file that a path leads to from a module: the longest beginning of the path that is one.
fn file_of(path: &Module, from: &Module, files: &BTreeSet<Module>) -> Option<Module> {
    let mut names = path.iter().peekable();
    let mut base = match names.peek()?.as_str() {
        "crate" => Module::new(),
        "self" | "super" => from.clone(),
        _ => return None,
    };
    while let Some(name) = names.next_if(|name| ["crate", "self", "super"].contains(&name.as_str())) {
        if name == "super" {
            base.pop();
        }
    }
    base.extend(names.cloned());
    (1..=base.len()).rev().map(|length| base[..length].to_vec()).find(|module| files.contains(module))
}

/// Returns what every file imports.
fn imports(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let sources = crate::architecture::sources(source.to_str().unwrap());
    let files: BTreeSet<_> = sources.iter().filter_map(|(file, _)| module_of(file, source)).collect();
    let mut imports = BTreeMap::new();
    for (file, text) in &sources {
        let Some(module) = module_of(file, source) else { continue };
        let paths = Paths::of(&syn::parse_file(text).unwrap());
        let targets = paths.0.iter().filter_map(|path| file_of(path, &module, &files));
        let targets = targets.filter(|target| *target != module).collect();
        imports.insert(module, targets);
    }
    imports
}

/// Returns every module that can be reached from one.
fn reachable(from: &Module, imports: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.clone()];
    while let Some(module) = next.pop() {
        for target in imports.get(&module).into_iter().flatten() {
            if reached.insert(target.clone()) {
                next.push(target.clone());
            }
        }
    }
    reached
}

/// Returns the pairs of files that need each other.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<(Module, Module)> {
    let reach: BTreeMap<_, _> = imports.keys().map(|module| (module, reachable(module, imports))).collect();
    let mut found = Vec::new();
    for (one, from_one) in &reach {
        for other in from_one.iter().filter(|other| *one < *other && reach[other].contains(*one)) {
            found.push(((*one).clone(), other.clone()));
        }
    }
    found
}

fn imports_of(package: &str, least: usize) -> BTreeMap<Module, BTreeSet<Module>> {
    let source = crate::architecture::root().join(package).join("src");
    let imports = imports(&source);
    let found = imports.values().map(BTreeSet::len).sum::<usize>();
    assert!(found > least, "{package}: {found} imports were found");
    imports
}

#[test]
fn no_files_of_the_locks_or_of_loadgen_need_each_other() {
    for (package, least) in
        [("locks/recipes", 100), ("locks/protocol", 15), ("locks/zk-lock", 5), ("loadgen/buyers", 10), ("loadgen", 150)]
    {
        assert_eq!(circles(&imports_of(package, least)), [], "{package}");
    }
}

#[test]
fn no_folders_of_the_load_generator_need_each_other() {
    let mut folders: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, targets) in imports_of("loadgen", 150) {
        let others = targets.into_iter().map(|target| vec![target[0].clone()]).filter(|other| other[0] != module[0]);
        folders.entry(vec![module[0].clone()]).or_default().extend(others);
    }
    assert_eq!(circles(&folders), []);
}

#[test]
fn files_that_need_each_other_elsewhere_stand_in_one_folder() {
    for (package, least) in [("demo-service", 50), ("tools/testbed", 20)] {
        let mut circles = circles(&imports_of(package, least));
        circles.retain(|(one, other)| one[0] != other[0]);
        assert_eq!(circles, [], "{package}");
    }
}

#[test]
fn a_circle_is_found_however_its_paths_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path();
    fs::create_dir(source.join("store")).unwrap();
    fs::write(source.join("lib.rs"), "mod app; mod store;").unwrap();
    fs::write(source.join("app.rs"), "use crate::{store::{sales::Sale, Store}};").unwrap();
    fs::write(source.join("store.rs"), "mod sales; pub struct Store;").unwrap();
    fs::write(
        source.join("store/sales.rs"),
        "fn sell() { super::super::app::tell() }\n#[cfg(test)]\nmod tests { use crate::other::X; }",
    )
    .unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Module>();
    assert_eq!(circles(&imports(source)), [(names(&["app"]), names(&["store", "sales"]))]);
    fs::write(source.join("store/sales.rs"), "use super::Store;").unwrap();
    assert_eq!(circles(&imports(source)), []);
}
