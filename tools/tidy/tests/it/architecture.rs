//! The invariants of `ARCHITECTURE.md` that a program can check.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// Returns the direct dependencies of a crate of this workspace, without those of its tests.
fn dependencies(package: &str) -> Vec<String> {
    dependencies_that(package, |kind| kind != DependencyKind::Development)
}

/// Returns the direct dependencies of a crate of this workspace, of the kinds that are wanted.
fn dependencies_that(package: &str, is_wanted: impl Fn(DependencyKind) -> bool) -> Vec<String> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps().other_options(["--offline".to_owned()]);
    let metadata = command.exec().unwrap();
    let package = metadata.packages.iter().find(|candidate| candidate.name.as_str() == package);
    let dependencies = &package.expect("the package exists").dependencies;
    dependencies
        .iter()
        .filter(|dependency| is_wanted(dependency.kind))
        .map(|dependency| dependency.name.clone())
        .collect()
}

pub(crate) fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// Returns the code of a file before its tests, without comments.
fn code(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]").next().unwrap();
    shipped.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_arrows_between_the_crates_are_those_of_the_drawing() {
    let is_member = |name: &String| {
        [
            "zk-recipes-protocol",
            "zk-recipes",
            "zk-lock",
            "lock-weather",
            "lock-torture",
            "weather",
            "planted-mistakes",
            "batch-queue",
            "interleaved",
            "planted-service",
            "demo-service",
            "program",
            "campaign",
            "planting",
            "fuzz",
            "stats",
            "simulation",
            "buyers",
            "loadgen",
            "bench",
            "testbed",
        ]
        .contains(&name.as_str())
    };
    let of_the_workspace =
        |package: &str| -> Vec<String> { dependencies(package).into_iter().filter(is_member).collect() };
    assert_eq!(dependencies("zk-recipes-protocol"), Vec::<String>::new());
    assert_eq!(of_the_workspace("zk-recipes"), ["zk-recipes-protocol"]);
    assert_eq!(of_the_workspace("program"), Vec::<String>::new());
    assert_eq!(of_the_workspace("testbed"), ["program"]);
    assert_eq!(of_the_workspace("zk-lock"), ["zk-recipes"]);
    assert_eq!(of_the_workspace("batch-queue"), Vec::<String>::new());
    assert_eq!(of_the_workspace("demo-service"), ["batch-queue", "program", "zk-recipes"]);
    assert_eq!(of_the_workspace("campaign"), ["program"]);
    assert_eq!(of_the_workspace("planting"), Vec::<String>::new());
    assert_eq!(of_the_workspace("fuzz"), Vec::<String>::new());
    assert_eq!(of_the_workspace("lock-weather"), ["campaign", "program", "zk-recipes-protocol"]);
    assert_eq!(of_the_workspace("lock-torture"), ["program", "stats", "testbed", "weather", "zk-recipes"]);
    assert_eq!(of_the_workspace("weather"), ["program", "testbed"]);
    assert_eq!(of_the_workspace("planted-mistakes"), ["planting", "planting"]);
    assert_eq!(of_the_workspace("interleaved"), ["campaign", "planting", "program", "planting"]);
    assert_eq!(of_the_workspace("planted-service"), ["planting", "program"]);
    assert_eq!(of_the_workspace("buyers"), ["program", "stats"]);
    assert_eq!(
        of_the_workspace("loadgen"),
        ["buyers", "program", "simulation", "stats", "testbed", "weather", "zk-recipes"]
    );
    assert_eq!(of_the_workspace("stats"), Vec::<String>::new());
    assert_eq!(of_the_workspace("simulation"), ["stats", "zk-recipes-protocol"]);
    assert_eq!(of_the_workspace("bench"), ["loadgen", "program", "stats", "testbed", "zk-recipes"]);

    let for_tests = |package: &str| -> Vec<String> {
        dependencies_that(package, |kind| kind == DependencyKind::Development).into_iter().filter(is_member).collect()
    };
    for package in ["zk-recipes", "zk-lock", "demo-service"] {
        assert_eq!(for_tests(package), ["fuzz", "testbed"], "{package}");
    }
    for package in ["zk-recipes-protocol", "program", "testbed", "stats", "buyers", "loadgen"] {
        assert_eq!(for_tests(package), ["fuzz"], "{package}");
    }
    for package in ["fuzz", "batch-queue", "simulation"] {
        assert_eq!(for_tests(package), Vec::<String>::new(), "{package}");
    }
    assert_eq!(for_tests("bench"), ["demo-service", "fuzz", "zk-recipes-protocol"]);
}

#[test]
fn the_lock_library_knows_nothing_of_sql_or_http() {
    let dependencies = dependencies("zk-recipes");
    for foreign in ["sqlx", "axum", "hyper", "reqwest", "tower", "tower-http"] {
        assert!(!dependencies.iter().any(|name| name == foreign), "zk-recipes depends on {foreign}");
    }
}

#[test]
fn only_the_recipes_reach_zookeeper() {
    for package in ["demo-service", "zk-lock", "loadgen"] {
        assert!(!dependencies(package).iter().any(|name| name == "zookeeper-client"), "{package}");
    }
}

#[test]
fn the_deciding_code_has_no_async_no_clock_and_no_io() {
    let deciding = [
        "loadgen/buyers/src/answer.rs",
        "loadgen/buyers/src/health.rs",
        "loadgen/buyers/src/model.rs",
        "loadgen/buyers/src/sample.rs",
        "loadgen/buyers/src/script/answer.rs",
        "loadgen/buyers/src/script/json_path.rs",
        "loadgen/buyers/src/script/meaning.rs",
        "loadgen/buyers/src/script/source.rs",
        "loadgen/buyers/src/script/template.rs",
        "loadgen/buyers/src/script/veil.rs",
        "demo-service/src/sale/decision.rs",
        "demo-service/src/sale/goods.rs",
        "demo-service/src/sale/purchase.rs",
        "demo-service/src/strategy/admission.rs",
        "loadgen/src/lab/counters.rs",
        "loadgen/src/lab/postgres_load.rs",
        "loadgen/src/lab/strategy.rs",
        "loadgen/src/lab/traffic.rs",
        "loadgen/src/report/diff.rs",
        "loadgen/src/trial/herd.rs",
        "loadgen/src/trial/record.rs",
        "loadgen/src/trial/schedule.rs",
        "bench/src/locks/schedule.rs",
        "bench/src/locks/arrivals.rs",
        "bench/src/locks/protocol.rs",
        "bench/src/locks/window.rs",
        "bench/src/locks/results.rs",
        "bench/src/locks/ratios.rs",
        "bench/src/locks/waits.rs",
    ];
    let folders = [
        "locks/protocol/src",
        "tools/stats/src",
        "loadgen/simulation/src",
        "loadgen/src/audit",
        "loadgen/src/judge",
        "loadgen/src/export",
    ];
    let deciding = deciding.into_iter().map(|file| (root().join(file), fs::read_to_string(root().join(file)).unwrap()));
    for (file, text) in folders.into_iter().flat_map(sources).chain(deciding) {
        let code = code(&text);
        for effect in ["async ", ".await", "Instant::now", "SystemTime::now", "tokio", "std::fs", "std::net", "sqlx"] {
            assert!(!code.contains(effect), "{} contains {effect:?}", file.display());
        }
    }
}

#[test]
fn only_one_file_of_the_lock_library_sends_requests() {
    for (path, text) in sources("locks/recipes/src") {
        let sends = code(&text).contains("Client::connector") || code(&text).contains("client.create(");
        let may = path.ends_with("wire.rs") || path.ends_with("connect.rs");
        assert!(!sends || may, "{} talks to the client library itself", path.display());
    }
}

#[test]
fn nothing_is_spawned_inside_a_drop() {
    for (path, text) in
        ["locks/recipes/src", "locks/zk-lock/src", "demo-service/src", "loadgen/buyers/src", "loadgen/src"]
            .into_iter()
            .flat_map(sources)
    {
        for drop in code(&text).split("fn drop(&mut self)").skip(1) {
            let body = drop.split("\n    }\n").next().unwrap();
            assert!(!body.contains("spawn"), "{} spawns inside a drop", path.display());
        }
    }
}

#[test]
fn every_statement_of_the_service_s_domain_is_in_the_store() {
    for (path, text) in sources("demo-service/src") {
        let states = code(&text).contains("sqlx::query");
        let may = path.ends_with("src/store.rs") || path.parent().unwrap().ends_with("src/store");
        assert!(!states || may, "{} has a statement of its own", path.display());
    }
}

#[test]
fn every_recipe_is_under_the_suites_and_has_a_name_in_zk_lock() {
    let any_lock = read("locks/recipes/src/locks/any_lock.rs");
    let (_, variants) = any_lock.split_once("pub enum AnyLock {").unwrap();
    let variants = variants.split("\n}").next().unwrap().lines().filter(|line| !line.trim().starts_with("//"));
    let recipes: Vec<&str> = variants.filter_map(|line| Some(line.trim().split_once('(')?.0)).collect();
    assert!(recipes.len() > 8, "{recipes:?}");
    for file in [
        "locks/recipes/tests/it/support.rs",
        "locks/recipes/tests/stress/contended_paths.rs",
        "locks/zk-lock/src/recipe.rs",
    ] {
        let text = read(file);
        let names: Vec<&str> = text.split(|letter: char| !letter.is_alphanumeric()).collect();
        for recipe in &recipes {
            assert!(names.contains(recipe), "{file} lacks the recipe {recipe}");
        }
    }
}

#[test]
fn no_test_is_ignored() {
    let attribute = concat!("#[", "ignore");
    for (path, text) in ["locks", "demo-service", "loadgen", "tools", "bench"].into_iter().flat_map(sources) {
        assert!(!text.contains(attribute), "{} ignores a test", path.display());
    }
}
