//! Every help page, held equal to a file. `UPDATE_SNAPSHOTS=1` writes the files anew.

use std::fs;
use std::path::Path;

use super::environment::TestEnvironment;

/// Commands as the help lists them; clap's own `help` is left out.
fn commands(page: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| *line != "Commands:").skip(1);
    let own = lines.take_while(|line| !line.is_empty());
    own.filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    })
    .collect()
}

fn hold_equal(name: &str, page: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/help")
        .join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|v| v == "1") {
        fs::write(&file, page).expect("a snapshot");
    }
    let held = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        held == page,
        "{} differs; UPDATE_SNAPSHOTS=1 writes it anew. Now:\n{page}",
        file.display()
    );
}

#[test]
fn every_help_page_has_an_example_fits_80_columns_and_is_as_it_was() {
    let env = TestEnvironment::new();
    let top = env.run(&env.base(), &["--help"]).exits(0);
    let commands = commands(&top.stdout);
    assert!(commands.len() >= 4, "{commands:?}");
    let mut pages = vec![("calibrun".to_owned(), top)];
    for command in commands {
        let page = env.run(&env.base(), &[&command, "--help"]).exits(0);
        pages.push((command, page));
    }
    for (name, page) in &pages {
        assert_eq!(page.stderr, "");
        assert!(page.stdout.contains("\nExample"), "{name}: no example");
        let example = page.stdout.lines().last().unwrap_or_default();
        assert!(example.starts_with("  calibrun "), "{name}: {example:?}");
        let long: Vec<&str> = page.stdout.lines().filter(|l| l.len() > 80).collect();
        assert!(long.is_empty(), "{name}: {long:?}");
        hold_equal(name, &page.stdout);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help");
    let held = fs::read_dir(folder).expect("snapshots").count();
    assert_eq!(held, pages.len(), "a snapshot of a command that is no more");
}

#[test]
fn the_version_is_one_line() {
    let env = TestEnvironment::new();
    let session = env.run(&env.base(), &["--version"]).exits(0);
    let version = format!("calibrun {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(session.stdout, version);
}
