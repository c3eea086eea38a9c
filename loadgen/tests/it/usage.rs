//! Wrong command lines, which fail before anything is started.

use std::fs::File;

use crate::support::{TestFolder, finish};

fn assert_usage(args: &[&str], expected: &str) {
    let folder = TestFolder::new();
    let finished = finish(&mut folder.loadgen_throwaway(args));
    finished.assert_error(64, expected);
    assert_eq!(finished.stdout, "");
    assert!(folder.is_clean());
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    assert_usage(&["compare", "--buyers", "3"], "unexpected argument '--buyers'");
}

#[test]
fn no_subcommand_is_a_usage_error() {
    assert_usage(&[], "Usage: loadgen <COMMAND>");
}

#[test]
fn a_target_without_its_database_is_a_usage_error() {
    assert_usage(&["compare", "--target", "http://127.0.0.1:1"], "error: --target needs --database-url");
}

// C26
#[test]
fn up_replaces_no_file_that_it_did_not_write() {
    let folder = TestFolder::new();
    std::fs::write(folder.path("notes"), "mine").unwrap();
    let finished = finish(&mut folder.loadgen_throwaway(["up", "--env", "notes"]));
    assert_eq!(finished.code, Some(64), "{}", finished.stderr);
    assert!(finished.stderr.starts_with("error: notes was not written by `loadgen up`"), "{}", finished.stderr);
    assert_eq!(std::fs::read_to_string(folder.path("notes")).unwrap(), "mine");
}

#[test]
fn ports_that_do_not_fit_are_a_usage_error() {
    assert_usage(&["up", "--port", "65535"], "error: --port 65535 leaves no room for 3 instances");
}

#[test]
fn a_flag_without_meaning_for_an_export_is_a_usage_error() {
    assert_usage(&["export", "k6", "--trials", "3"], "unexpected argument '--trials <VALUE>'");
    assert_usage(&["export", "k6", "--quiet"], "`loadgen compare` has this flag");
}

#[test]
fn a_mistake_in_a_plan_is_a_usage_error() {
    let folder = TestFolder::new();
    std::fs::write(folder.path("plan.toml"), "user = 3").unwrap();
    let finished = finish(&mut folder.loadgen_throwaway(["compare", "--plan", "plan.toml"]));
    assert_eq!(finished.code, Some(64), "{}", finished.stderr);
    assert!(finished.stderr.starts_with("error: the plan plan.toml is wrong: "), "{}", finished.stderr);
}

// C28
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let folder = TestFolder::new();
    for args in ["report --schema", "report --figures", "diff --schema", "completions bash", "--help", "report --help"]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = folder.loadgen(args.split(' ')).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{args}: {stderr}");
        assert!(stderr.starts_with("error: could not write to standard output: "), "{args}: {stderr}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = TestFolder::new();
    let finished = finish(&mut folder.loadgen(["man", "--out", "pages"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for page in ["loadgen.1", "loadgen-compare.1", "loadgen-man.1"] {
        let text = std::fs::read_to_string(folder.path("pages").join(page)).unwrap();
        assert!(text.contains("\n.SH SYNOPSIS\n") && text.contains("\n.SH \"EXIT STATUS\"\n"), "{page}: {text}");
    }
}

#[test]
fn help_lists_the_presets_with_their_descriptions() {
    let folder = TestFolder::new();
    let finished = finish(&mut folder.loadgen(["compare", "--help"]));
    // The descriptions stand in a column.
    let words: Vec<&str> = finished.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("- quick: 300 users for 100 units"), "{}", finished.stdout);
}

#[test]
fn help_names_the_exit_codes_on_standard_output() {
    let folder = TestFolder::new();
    for args in [&["--help"][..], &["compare", "--help"]] {
        let finished = finish(&mut folder.loadgen(args));
        assert_eq!(finished.code, Some(0));
        assert!(finished.stdout.contains("  130  interrupted"), "{}", finished.stdout);
    }
}
