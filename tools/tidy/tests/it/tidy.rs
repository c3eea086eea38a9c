//! Defects that nobody notices: dependencies that nothing names, long files, crates without a licence, words with two meanings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::semver::VersionReq;
use cargo_metadata::{Dependency, DependencyKind, MetadataCommand, Package, Target};
use syn::visit::{self, Visit};
use syn::{Expr, ExprAssign, Local, Pat};

use crate::architecture::{root, sources};
use crate::documents::files;

const LINES_MAX: usize = 400;

fn packages() -> Vec<Package> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps().other_options(["--offline".to_owned()]);
    command.exec().unwrap().packages
}

/// Returns the sources of a crate with those that it includes from elsewhere: tests, models, and what its build script copies.
fn sources_of(package: &Package) -> Vec<(PathBuf, String)> {
    let targets = package.targets.iter().map(|target| target.src_path.parent().unwrap().as_str());
    let own = targets.collect::<BTreeSet<_>>().into_iter().flat_map(sources).collect::<Vec<_>>();
    let taken_in = own.iter().flat_map(|(path, text)| {
        let included = text.lines().filter_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]"));
        let copied = text.split("folder: \"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
        included.chain(copied).map(|folder| path.parent().unwrap().join(folder)).filter(|folder| folder.is_dir())
    });
    let taken_in = taken_in.collect::<BTreeSet<_>>().into_iter().flat_map(|folder| sources(folder.to_str().unwrap()));
    let taken_in = taken_in.collect::<Vec<_>>();
    own.into_iter().chain(taken_in).collect()
}

/// Returns whether the code of a text has the word, without comments.
fn names(text: &str, word: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_of_a_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.flat_map(|line| line.split(|letter| !is_of_a_name(letter))).any(|found| found == word)
}

/// Returns whether the code that may use a dependency names it.
fn is_used(dependency: &Dependency, sources: &[(PathBuf, String)], folder: &Path) -> bool {
    let name = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
    sources.iter().any(|(path, text)| {
        let is_test = path.strip_prefix(folder).is_ok_and(|path| path.starts_with("tests"));
        match dependency.kind {
            DependencyKind::Development => names(text, &name),
            _ => !is_test && names(text.split("#[cfg(test)]\nmod tests").next().unwrap(), &name),
        }
    })
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for package in packages() {
        let sources = sources_of(&package);
        let folder = package.manifest_path.parent().unwrap();
        let dependencies = package.dependencies.iter();
        let idle = dependencies.filter(|dependency| !is_used(dependency, &sources, folder.as_std_path()));
        unused.extend(idle.map(|dependency| format!("{} of {}", dependency.name, package.name)));
    }
    assert_eq!(unused, Vec::<String>::new());
}

#[test]
fn every_dependency_of_the_workspace_is_one_of_a_crate() {
    let used: BTreeSet<_> =
        packages().into_iter().flat_map(|package| package.dependencies).map(|used| used.name).collect();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[workspace.dependencies]\n").unwrap();
    let lines = dependencies.lines().take_while(|line| !line.starts_with('['));
    let unused: Vec<_> =
        lines.filter_map(|line| line.split_once(" = ")).filter(|(name, _)| !used.contains(*name)).collect();
    assert_eq!(unused, []);
}

/// Returns the files that a crate is published with, one per line.
fn packed(package: &Package) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(["package", "--list", "--allow-dirty", "--offline", "--package", &package.name]);
    String::from_utf8(command.current_dir(root()).output().unwrap().stdout).unwrap()
}

// `make package` builds the examples. Cargo publishes a crate without the dependencies that have no version.
#[test]
fn no_packed_example_needs_an_unpublished_crate() {
    for package in packages().into_iter().filter(|package| package.publish.is_none()) {
        let own = package.dependencies.iter().filter(|it| it.path.is_some() && it.req == VersionReq::STAR);
        let own: Vec<_> = own.map(|dependency| dependency.name.replace('-', "_")).collect();
        for file in packed(&package).lines().filter(|file| file.starts_with("examples/")) {
            let text = fs::read_to_string(package.manifest_path.with_file_name(file)).unwrap();
            let needed: Vec<_> = own.iter().filter(|name| names(&text, name)).collect();
            assert_eq!(needed, Vec::<&String>::new(), "{file} of {}", package.name);
        }
    }
}

#[test]
fn every_crate_has_a_licence_and_is_published_with_both_texts() {
    for package in packages() {
        assert_eq!(package.license.as_deref(), Some("MIT OR Apache-2.0"), "{}", package.name);
        if package.publish.is_some() {
            continue;
        }
        let packed = packed(&package);
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            assert!(packed.lines().any(|line| line == file), "{} is packed without {file}", package.name);
        }
        for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let of_the_crate = fs::read(package.manifest_path.with_file_name(file)).unwrap();
            assert_eq!(of_the_crate, fs::read(root().join(file)).unwrap(), "{file} of {}", package.name);
        }
    }
}

#[test]
fn files_are_short() {
    let is_long = |path: &PathBuf| fs::read_to_string(path).unwrap().lines().count() > LINES_MAX;
    let long: Vec<_> = files(&["rs"]).into_iter().filter(is_long).collect();
    assert_eq!(long, Vec::<PathBuf>::new());
}

/// Returns the fuzz targets that a source makes.
fn fuzz_targets(source: &str) -> Vec<String> {
    let calls = source.split("fuzz::any_").skip(1).filter_map(|rest| rest.split_once("(\"")?.1.split_once('"'));
    calls.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn each_fuzz_target_has_inputs_and_stands_beside_its_parser() {
    let mut targets = Vec::new();
    for path in files(&["rs"]).into_iter().filter(|path| path != &root().join(file!())) {
        let found = fuzz_targets(&fs::read_to_string(&path).unwrap());
        assert!(found.is_empty() || path.ends_with("fuzzed.rs"), "{}: a target stands in fuzzed.rs", path.display());
        targets.extend(found);
    }
    targets.sort();
    assert!(targets.len() > 40, "{targets:?}");
    let folders = fs::read_dir(root().join("tools/fuzz/__fuzz__")).unwrap();
    let mut kept: Vec<_> = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    kept.sort();
    assert_eq!(kept, targets, "a folder for each target, and a name");
}

/// Returns a source of a crate, and those of the modules that it declares.
fn modules(path: &Path, folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let names = text.lines().filter_map(|line| Some(line.trim().strip_suffix(';')?.rsplit_once("mod ")?.1.to_owned()));
    let files = names.map(|name| folder.join(name)).filter(|module| module.with_extension("rs").is_file());
    let inner: Vec<String> = files.flat_map(|module| modules(&module.with_extension("rs"), &module)).collect();
    [text].into_iter().chain(inner).collect()
}

// Only the crate `fuzz` brings the runtime without which an instrumented program cannot be linked.
#[test]
fn the_fuzzer_builds_each_target_and_only_what_it_can_link() {
    let script = Command::new(root().join("scripts/fuzz.sh")).arg("--crates").output().unwrap();
    let printed = String::from_utf8(script.stdout).unwrap();
    let chosen: BTreeSet<_> = printed.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut built = BTreeSet::new();
    for package in packages().iter().filter(|package| chosen.contains(&("-p", package.name.as_str()))) {
        let is_built = |target: &&Target| target.is_lib() || chosen.contains(&("--bin", &target.name));
        for target in package.targets.iter().filter(is_built) {
            let texts = modules(target.src_path.as_std_path(), target.src_path.parent().unwrap().as_std_path());
            let found: Vec<_> = texts.iter().flat_map(|text| fuzz_targets(text)).collect();
            let is_linked = !found.is_empty() || texts[0].contains("#[cfg(all(test, fuzzing))]\nuse fuzz as _;");
            assert!(is_linked, "{} {} has no target, so it lacks the runtime", package.name, target.name);
            built.extend(found);
        }
    }
    let kept = fs::read_dir(root().join("tools/fuzz/__fuzz__")).unwrap();
    let kept: BTreeSet<_> = kept.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(built, kept, "scripts/fuzz.sh --crates has all crates with targets");
}

/// How many statements a source joins by a tuple: `let (a, b) = (x, y);` is two of them in one.
#[derive(Default)]
struct JoinedStatements(usize);

impl Visit<'_> for JoinedStatements {
    fn visit_local(&mut self, local: &Local) {
        let is_joined =
            local.init.as_ref().is_some_and(|init| init.diverge.is_none() && matches!(*init.expr, Expr::Tuple(_)));
        if let (Pat::Tuple(_), true) = (&local.pat, is_joined) {
            self.0 += 1;
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_assign(&mut self, assign: &ExprAssign) {
        if let (Expr::Tuple(_), Expr::Tuple(_)) = (&*assign.left, &*assign.right) {
            self.0 += 1;
        }
        visit::visit_expr_assign(self, assign);
    }
}

fn joined_statements(source: &str) -> usize {
    let mut joined = JoinedStatements::default();
    joined.visit_file(&syn::parse_file(source).unwrap());
    joined.0
}

#[test]
fn no_tuple_joins_two_statements() {
    assert_eq!(joined_statements("fn f() {\n let (a, b) = (1, 2);\n (a, b) = (b, a);\n let (c, d) = g();\n}"), 2);
    let joins = |path: &PathBuf| joined_statements(&fs::read_to_string(path).unwrap()) > 0;
    let joining: Vec<_> = files(&["rs"]).into_iter().filter(joins).collect();
    assert_eq!(joining, Vec::<PathBuf>::new());
}

#[test]
fn every_term_of_a_house_has_one_meaning_and_is_used() {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let texts = files(&["md", "rs"]).into_iter().filter(|path| !path.ends_with("docs/glossary.md"));
    let texts: String = texts.map(|path| fs::read_to_string(path).unwrap().to_lowercase()).collect();
    let houses: Vec<&str> = glossary.split("\n## ").skip(1).collect();
    assert_eq!(houses.len(), 4, "a heading for each house");
    for house in houses {
        let rows = house.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| term"));
        let cells = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(','));
        let terms: Vec<String> = cells.map(|term| term.trim().to_lowercase()).collect();
        assert!(terms.len() > 10, "a house has terms, and not {terms:?}");
        assert_eq!(terms.iter().collect::<BTreeSet<_>>().len(), terms.len(), "a term is defined twice: {terms:?}");
        let unused: Vec<_> = terms.iter().filter(|term| !texts.contains(*term)).collect();
        assert_eq!(unused, Vec::<&String>::new());
    }
}

#[test]
fn every_file_of_tests_is_named_by_a_goal_of_make() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let words: Vec<&str> = makefile.split_whitespace().collect();
    for package in packages() {
        for target in package.targets.iter().filter(|target| target.is_test()) {
            let is_named = words.windows(2).any(|pair| pair == ["--test", &target.name]);
            assert!(is_named, "no goal of make runs the tests {} of {}", target.name, package.name);
        }
    }
}
