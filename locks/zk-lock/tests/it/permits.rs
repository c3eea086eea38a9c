//! Contenders of one semaphore that were given different numbers of permits.

// Z9

use std::fs;

use crate::support::{Lab, PATH, Running};

/// Tells that it holds, and goes on until a file is there.
const UNTIL_GO: &str = "echo holds; until [ -e go ]; do sleep 0.02; done";

async fn holder(lab: &Lab, recipe: &str) -> Running {
    let mut holder = lab.start_script(&["--recipe", recipe], UNTIL_GO);
    assert_eq!(holder.line().await, "holds");
    holder
}

fn warning(theirs: u32, ours: u32) -> String {
    format!(" takes {PATH} for a semaphore of {theirs}, and this command for one of {ours}; give both the same number")
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_that_disagree_about_the_number_are_warned() {
    for (first, second, expected) in [
        ("semaphore=4", "semaphore=5", Some(warning(4, 5))),
        ("semaphore-mutex", "semaphore=2", Some(warning(1, 2))),
        ("semaphore=2", "semaphore=2", None),
    ] {
        let lab = Lab::new().await;
        let one = holder(&lab, first).await;
        let other = holder(&lab, second).await;
        fs::write(lab.file("go"), "").unwrap();
        let one = one.finish().await;
        one.assert_status(0);
        let other = other.finish().await;
        other.assert_status(0);
        assert_eq!(one.stderr, "", "{first} held alone");
        match expected {
            Some(expected) => assert!(other.stderr.contains(&expected), "{second}: {}", other.stderr),
            None => assert_eq!(other.stderr, "", "{second}"),
        }
        assert!(other.stderr.lines().count() <= 1, "{}", other.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_with_another_number_is_warned() {
    let lab = Lab::new().await;
    let one = holder(&lab, "semaphore=2").await;
    let waiter = lab.start_script(&["--recipe", "semaphore=1"], "true");
    waiter.until_says(&warning(2, 1)).await;
    // A contender that waits in vain is warned once.
    for timeout in ["0s", "2s"] {
        let options = ["--recipe", "semaphore=1", "--timeout", timeout];
        let vain = lab.start_script(&options, "true").finish().await;
        vain.assert_status(75);
        assert_eq!(vain.stderr.matches(&warning(2, 1)).count(), 1, "{timeout}: {}", vain.stderr);
    }
    fs::write(lab.file("go"), "").unwrap();
    one.finish().await.assert_status(0);
    let waiter = waiter.finish().await;
    waiter.assert_status(0);
    assert_eq!(waiter.stderr.lines().count(), 1, "{}", waiter.stderr);
}
