//! The tables of `docs/using.md` about all programs: variables of the environment, and exit statuses.

use std::collections::BTreeSet;

use program::Exit;

use crate::architecture::{read, sources};

/// Variables that a library reads for the programs.
const READ_BY_LIBRARIES: [&str; 9] = [
    "PGAPPNAME",
    "PGOPTIONS",
    "PGPASSFILE",
    "PGPASSWORD",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGSSLMODE",
    "PGSSLROOTCERT",
    "TMPDIR",
];

/// Names in the sources that are no settings of ours: set for other programs, or by Cargo and the system for everybody.
const NO_SETTINGS: [&str; 31] = [
    "BUILD_CHANGED",
    "BUILD_PROFILE",
    "BUILD_REVISION",
    "CARGO",
    "CARGO_MANIFEST_DIR",
    "CARGO_PKG_VERSION",
    "CARGO_TARGET_TMPDIR",
    "FAKETIME_CACHE_DURATION",
    "FAKETIME_DONT_FAKE_MONOTONIC",
    "FAKETIME_FORCE_MONOTONIC_FIX",
    "FAKETIME_TIMESTAMP_FILE",
    "FUZZ_LIST",
    "HYPOTHESIS_STORAGE_DIRECTORY",
    "JAVA_TOOL_OPTIONS",
    "K6_CSV_TIME_FORMAT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOCK_PATH",
    "LOCK_TOKEN",
    "MALLOC_ARENA_MAX",
    "NO_COLOR",
    "OUT_DIR",
    "PATH",
    "PROFILE",
    "RAMP_UP_MS",
    "RUST_PLANTED_MISTAKE",
    "SECKILL_URLS",
    "SHOP_SECRET",
    "SQLX_OFFLINE",
    "SQL_ASCII",
    "START_AT",
];

const HOUSES: [&str; 5] = ["bench", "demo-service", "loadgen", "locks", "tools"];

/// Returns whether a text could name a variable of the environment.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Returns the name at the beginning of a text.
fn leading(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap()
}

/// Returns the variables that a Rust source reads by their names: arguments of `env::var` and `env::var_os`, and every
/// other string that is written like a variable of several words.
fn named(text: &str) -> impl Iterator<Item = String> {
    let literals = text.split('"').skip(1).filter(|text| is_name(text) && text.contains('_') && !text.ends_with('_'));
    let asked = ["env::var(\"", "env::var_os(\""].into_iter().flat_map(|call| text.split(call).skip(1).map(leading));
    literals.chain(asked).map(str::to_owned)
}

/// Returns the variables that clap derives from the fields with a bare `env`.
fn derived(text: &str) -> impl Iterator<Item = String> {
    text.split("#[arg(").skip(1).filter_map(|rest| {
        let (attribute, field) = rest.split_once(")]\n")?;
        let is_bare = attribute.split([',', '\n']).any(|word| word.trim() == "env");
        let field = field.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        is_bare.then(|| leading(field).to_uppercase())
    })
}

/// Returns the variables that a script takes with a default, as `${NAME:-default}`.
fn with_default(text: &str) -> impl Iterator<Item = String> {
    let expanded = text.split("${").skip(1).filter(|rest| rest[leading(rest).len()..].starts_with(":-"));
    expanded.map(leading).filter(|name| is_name(name)).map(str::to_owned)
}

/// Returns the variables of a makefile that the environment or the command line may set.
fn settable(makefile: &str) -> impl Iterator<Item = String> {
    makefile.lines().filter_map(|line| line.split_once("?=")).map(|(name, _)| name.trim().to_owned())
}

fn read_by_the_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let here = format!("{}.rs", module_path!().rsplit("::").next().unwrap());
    for (path, text) in HOUSES.into_iter().flat_map(sources) {
        if !path.ends_with(&here) {
            names.extend(named(&text).chain(derived(&text)));
        }
    }
    for file in ["scripts/deps.sh", "docker-compose.yml", "Dockerfile", "Makefile"] {
        names.extend(with_default(&read(file)));
    }
    names.extend(settable(&read("Makefile")));
    names
}

/// Returns the names in the first column of the table below a heading.
fn first_column(document: &str, heading: &str) -> BTreeSet<String> {
    let section = document.split(&format!("\n## {heading}\n")).nth(1).expect("there is such a heading");
    let rows = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    let columns = rows.map(|row| row.split('|').nth(1).unwrap());
    columns.flat_map(|column| column.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn the_table_of_variables_has_every_one_and_no_other() {
    let table = first_column(&read("docs/using.md"), "Environment");
    let mut found = read_by_the_sources();
    for name in NO_SETTINGS {
        assert!(found.remove(name), "no source has {name} any more: remove it from NO_SETTINGS");
    }
    found.extend(READ_BY_LIBRARIES.map(str::to_owned));
    let missing: Vec<_> = found.difference(&table).collect();
    let stale: Vec<_> = table.difference(&found).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "missing in docs/using.md: {missing:?}; read by nothing: {stale:?}"
    );
}

// C37
#[test]
fn every_image_is_told_what_its_build_reads() {
    let [dockerfile, compose, release] =
        ["Dockerfile", "docker-compose.yml", ".github/workflows/release.yml"].map(read);
    // The lines of the last stage before its last build.
    let (build, _) = dockerfile.rsplit_once("&& cargo build").unwrap();
    let (_, build) = build.rsplit_once("\nFROM ").unwrap();
    for name in named(&read("demo-service/build.rs")).filter(|name| !NO_SETTINGS.contains(&name.as_str())) {
        assert!(build.lines().any(|line| line == format!("ARG {name}")), "Dockerfile lacks ARG {name}");
        assert!(compose.contains(&format!(" {name}: ${{{name}:-}}\n")), "docker-compose.yml passes no {name}");
        assert!(release.contains(&format!("--build-arg \"{name}=")), "the release passes no {name}");
    }
}

#[test]
fn images_are_built_by_the_toolchain_of_the_repository() {
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.split('"').nth(1).unwrap();
    for (file, images) in [("Dockerfile", 2), (".devcontainer/devcontainer.json", 1)] {
        let text = read(file);
        let found: Vec<_> = text.split("rust:").skip(1).map(|rest| rest.split('-').next().unwrap()).collect();
        assert_eq!(found, vec![version; images], "{file}");
    }
}

#[test]
fn every_exit_status_stands_in_the_table_with_its_meaning() {
    let document = read("docs/using.md");
    for exit in Exit::ALL {
        let row = format!("\n| {} | {} |", exit.code(), exit.meaning());
        assert!(document.contains(&row), "docs/using.md has no row that begins with{row}");
    }
}

#[test]
fn variables_are_found_however_they_are_read() {
    let source = "#[arg(long, env, value_name = \"N\")]\n    pub lock_wait: u8,\n#[arg(long, env = \"ZK_A\")]\n    b: u8,\n\
                  std::env::var_os(\"CI\"); path(\"A_HOME\"); \"Not one\"";
    let names: BTreeSet<_> = named(source).chain(derived(source)).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["A_HOME", "CI", "LOCK_WAIT", "ZK_A"]);
    assert_eq!(with_default("\"${A_B:-}\" $${C:-1} ${d:-2} ${E%%:*}").collect::<Vec<_>>(), ["A_B", "C"]);
    assert_eq!(settable("ARGS ?=\nTEST := x\n").collect::<Vec<_>>(), ["ARGS"]);
}
