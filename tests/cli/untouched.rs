//! The user's own files, which nothing of this may reach.

use super::environment::{TestEnvironment, fixtures, write};
use super::snapshot::Snapshot;

#[test]
fn a_probe_leaves_repo_index_objects_and_home_to_the_last_detail() {
    let env = TestEnvironment::new();
    for name in ["incident", "honest"] {
        let repo = env.fixture(name);
        // Stale stat data is what a reader would refresh.
        let file = std::fs::File::open(repo.join("README.md")).unwrap();
        file.set_modified(std::time::SystemTime::now()).unwrap();
        let before = Snapshot::of(&env.base());
        assert!(env.run(&repo, &["probe", "."]).code.is_some_and(|c| c < 2));
        before.still_holds(&env.base());
    }
}

#[test]
fn whatever_a_subject_tries_the_user_s_files_stay() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    env.git(&repo, &["branch", "other"]);
    env.git(&repo, &["stash"]);
    write(&repo.join("src/app.txt"), "text\nnot committed\n");
    write(&env.base().join("neighbour/file.txt"), "of somebody else\n");
    let script = fixtures().join("cases/vandal.sh");
    let tools = repo.join("tools/vandal.sh");
    write(&tools, &std::fs::read_to_string(script).unwrap());
    let before = Snapshot::of(&env.base());
    let real = format!("REAL={}", repo.display());
    let options = ["--env", real.as_str()];
    let session = env
        .observe(&repo, &options, &["sh", "tools/vandal.sh"])
        .exits(1);
    before.still_holds(&env.base());
    // It did try, and it got to the end in both passes.
    let capability = session.capability();
    for pass in capability["arms"][0]["passes"].as_array().unwrap() {
        assert_eq!(pass["termination"]["exited"], 7, "{session}");
        let attempts = pass["attempts"].as_array().unwrap();
        let effect = |name: &str| attempts.iter().any(|a| a["effect"] == name);
        for name in ["remove", "mode", "link", "rename", "times"] {
            assert!(effect(name), "no {name} in the {} pass", pass["name"]);
        }
    }
    assert_eq!(session.status("writes"), "contradicted");
    assert_eq!(session.status("reversibility"), "contradicted");
}
