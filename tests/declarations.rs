//! Declarations through the public interface: every fixture, folders on disk, garbled input, docs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use calibrun::contract::{
    Approval, Degrade, Judge, Residency, Reversibility, TierFloor, Writes, axes_table,
};
use calibrun::declaration::{
    ArmSpec, Channel, Cwd, Declaration, Input, InputStdin, Key, MAX_BYTES, NameClass, Notation,
    OnExceed, Problem, Property, PropertyClass, PropertyValue, ReadError, find, keys_table, read,
    read_str,
};

fn fixtures(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/declarations")
        .join(kind)
}

/// The declaration fixtures of one kind, sorted; sidecars are left out.
fn fixture_files(kind: &str) -> Vec<PathBuf> {
    let folder = fixtures(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("fixture folder")
        .map(|entry| entry.expect("fixture").path())
        .filter(|path| path.extension().is_some_and(|e| e != "problems"))
        .collect();
    files.sort();
    files
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).expect("fixture text")
}

fn valid(name: &str) -> Vec<Declaration> {
    let path = fixtures("valid").join(name);
    match read(&path) {
        Ok(list) => list,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn only(name: &str) -> Declaration {
    let mut list = valid(name);
    assert_eq!(list.len(), 1, "{name}");
    list.remove(0)
}

fn problems(name: &str, text: &str) -> Vec<Problem> {
    read_str(Path::new(name), text).expect_err("a problem")
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const MINIMAL_CAP: &str = include_str!("../fixtures/declarations/valid/minimal.cap");
const MINIMAL_YAML: &str = include_str!("../fixtures/declarations/valid/minimal.yaml");

#[test]
fn every_valid_fixture_is_read() {
    let files = fixture_files("valid");
    assert!(files.len() >= 12, "{} fixtures", files.len());
    for file in files {
        let list = read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(!list.is_empty(), "{}", file.display());
        assert_eq!(read_str(&file, &text_of(&file)), Ok(list));
    }
}

/// A sidecar holds, for each problem in order, `line:column: message` and perhaps its help line.
/// A message that ends in `*` gives the beginning alone (another parser's words follow).
#[test]
fn every_invalid_fixture_has_exactly_its_problems() {
    let files = fixture_files("invalid");
    assert!(files.len() >= 75, "{} fixtures", files.len());
    let mut failures = Vec::new();
    for file in files {
        let sidecar = PathBuf::from(format!("{}.problems", file.display()));
        let sidecar = text_of(&sidecar);
        let mut wanted: Vec<(&str, Option<&str>)> = Vec::new();
        for line in sidecar.lines() {
            match line.strip_prefix("  help: ") {
                Some(help) => wanted.last_mut().expect("a problem before its help").1 = Some(help),
                None => wanted.push((line, None)),
            }
        }
        assert!(!wanted.is_empty(), "{} expects nothing", file.display());
        let found = read_str(&file, &text_of(&file)).err().unwrap_or_default();
        let fits = found.len() == wanted.len()
            && found.iter().zip(&wanted).all(|(problem, (line, help))| {
                let place = format!("{}:{}: {}", problem.line, problem.column, problem.message);
                let message = match line.strip_suffix('*') {
                    Some(beginning) => place.starts_with(beginning),
                    None => place == *line,
                };
                message && help.is_none_or(|help| problem.help.as_deref() == Some(help))
            });
        if !fits {
            let shown: Vec<String> = found.iter().map(Problem::to_string).collect();
            failures.push(format!("wanted {wanted:#?}\nfound {}", shown.join("\n")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn a_problem_is_shown_with_file_place_and_help() {
    let text = MINIMAL_CAP.replace("writes:", "wirtes:");
    let shown: Vec<String> = problems("repo/a.cap", &text)
        .iter()
        .map(Problem::to_string)
        .collect();
    assert_eq!(
        shown,
        ["repo/a.cap:6:1: unknown key `wirtes`\n  help: did you mean `writes`?"]
    );
}

#[test]
fn the_whole_schema_arrives_in_the_model() {
    let d = only("whole_schema.yaml");
    assert_eq!(d.id, "field:lane-suite");
    assert_eq!(
        d.summary.as_deref(),
        Some("Runs the lanes of the field repo")
    );
    assert_eq!(d.tags, ["lanes", "ci"]);
    assert_eq!(d.entry, ["bash", "scripts/run_lanes.sh"]);
    assert_eq!(
        d.requires_cwd,
        Cwd::Absolute(PathBuf::from("/abs/path/to/field-repo"))
    );
    assert_eq!(
        d.input,
        Some(Input {
            stdin: InputStdin::Json("lane-request".to_owned()),
            args: strings(&["--suite", "<name>"])
        })
    );
    assert_eq!(d.verdict.channel, Channel::Both);
    assert_eq!(d.verdict.stdout_key.as_deref(), Some("FIELD_LANE_VERDICT"));
    let codes: Vec<(u8, &str)> = d
        .verdict
        .codes
        .iter()
        .map(|(code, name)| (*code, name.as_str()))
        .collect();
    assert_eq!(
        codes,
        [
            (0, "PASS"),
            (1, "FAIL"),
            (3, "DID_NOT_RUN"),
            (10, "HARNESS_ERROR")
        ]
    );
    assert_eq!(d.verdict.name_of(3), Some("DID_NOT_RUN"));
    assert_eq!(d.verdict.name_of(2), None);
    assert!(d.verdict.declares("FAIL") && !d.verdict.declares("LEAK"));
    let c = &d.constraints;
    assert_eq!(c.approval, Some(Approval::AskPerItem));
    assert_eq!(c.writes, Some(Writes::WriteLocal));
    assert_eq!(c.reversibility, Some(Reversibility::Unknown));
    assert_eq!(c.residency, Some(Residency::Company));
    assert_eq!(c.degrade, Some(Degrade::FailClosed));
    assert_eq!(c.tier_floor, Some(TierFloor::Sonnet));
    assert_eq!(c.judge, Some(Judge::Model));
    let binding: BTreeSet<String> = strings(&["FAIL", "DID_NOT_RUN", "HARNESS_ERROR"])
        .into_iter()
        .collect();
    assert_eq!(c.verdict_binding, Some(binding));
    assert_eq!(
        d.calibration.known_positive,
        ArmSpec {
            args: strings(&["--suite", "kp"]),
            stdin: None,
            expect: "PASS".to_owned()
        }
    );
    assert_eq!(
        d.calibration.known_negative,
        ArmSpec {
            args: strings(&["--suite", "kn"]),
            stdin: Some("fixtures/kn.json".to_owned()),
            expect: "FAIL".to_owned()
        }
    );
    assert_eq!(
        (d.upstream_argv, d.echoes_upstream),
        (Some(false), Some(true))
    );
    assert_eq!(d.registered.as_deref(), Some("2026-08-02"));
    assert_eq!(d.probe_ref.as_deref(), Some("1234567"));
    let properties = BTreeMap::from([
        (
            "fetch_timeout".to_owned(),
            Property {
                value: PropertyValue::Text("15s".to_owned()),
                class: Some(PropertyClass::Constraint),
                on_exceed: Some(OnExceed::Block),
            },
        ),
        (
            "retries".to_owned(),
            Property {
                value: PropertyValue::Number("3".to_owned()),
                class: None,
                on_exceed: None,
            },
        ),
        (
            "verbose".to_owned(),
            Property {
                value: PropertyValue::Boolean(true),
                class: Some(PropertyClass::Preference),
                on_exceed: None,
            },
        ),
    ]);
    assert_eq!(d.properties, properties);
    assert_eq!((d.source.line, d.source.notation), (3, Notation::Yaml));
}

#[test]
fn the_flat_notation_gives_the_same_model() {
    let flat = only("whole_schema.cap");
    assert_eq!(flat.source.notation, Notation::Flat);
    assert_eq!(flat.source.line, 2);
    assert_eq!(
        flat.entry,
        ["bash", "-c", "a | b; $c", "two words", "plain text", ""],
        "quotes make words and nothing is expanded"
    );
    assert_eq!(
        flat.requires_cwd,
        Cwd::Absolute(PathBuf::from("/abs/path to/field-repo"))
    );
    assert_eq!(
        flat.summary.as_deref(),
        Some("Runs the lanes: all of them, # included")
    );
    assert_eq!(flat.calibration.known_negative.args, [] as [&str; 0]);
    let nested = only("whole_schema.yaml");
    assert_eq!(flat.constraints, nested.constraints);
    assert_eq!(flat.verdict, nested.verdict);
    assert_eq!(
        flat.calibration.known_positive,
        nested.calibration.known_positive
    );
    assert_eq!(flat.tags, nested.tags);

    let (mut flat, nested) = (only("minimal.cap"), only("minimal.yaml"));
    flat.source = nested.source.clone();
    assert_eq!(flat, nested);
}

#[test]
fn a_byte_order_mark_and_crlf_change_nothing_but_the_digest() {
    for (plain, others) in [
        ("minimal.yaml", ["byte_order_mark.yaml", "crlf.yaml"]),
        ("minimal.cap", ["byte_order_mark.cap", "crlf.cap"]),
    ] {
        let plain = only(plain);
        for other in others {
            let mut other = only(other);
            assert_ne!(other.source.sha256, plain.source.sha256);
            other.source = plain.source.clone();
            assert_eq!(other, plain);
        }
    }
}

#[test]
fn an_axis_that_is_not_declared_stays_none() {
    let d = only("without_claims.yaml");
    assert_eq!(d.constraints, calibrun::declaration::Constraints::default());
    let d = only("empty_binding.cap");
    assert_eq!(
        d.constraints.verdict_binding,
        Some(BTreeSet::new()),
        "declared, and empty"
    );
    assert_eq!(d.constraints.approval, None);
}

#[test]
fn a_lone_declaration_has_the_digest_of_its_file_and_an_item_has_its_own() {
    use sha2::{Digest, Sha256};
    let hex = |bytes: &[u8]| -> String {
        Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    for name in [
        "minimal.yaml",
        "minimal.cap",
        "byte_order_mark.yaml",
        "whole_schema.cap",
    ] {
        let path = fixtures("valid").join(name);
        assert_eq!(
            only(name).source.sha256,
            hex(&fs::read(path).expect("fixture")),
            "{name}"
        );
    }

    let path = fixtures("valid").join("two_in_a_list.yaml");
    let text = text_of(&path);
    let list = read_str(&path, &text).expect("valid");
    let (first, second) = text.split_once("\n\n# the second\n").expect("two items");
    assert_eq!(
        list[0].source.sha256,
        hex(first.strip_prefix("- ").expect("item").as_bytes())
    );
    assert_eq!((list[0].source.line, list[1].source.line), (1, 13));
    assert_eq!(
        list[1].source.sha256,
        hex(second
            .strip_prefix("- ")
            .expect("item")
            .trim_end()
            .as_bytes())
    );
    let changed = text.replace("field:other", "field:another");
    let after = read_str(&path, &changed).expect("valid");
    assert_eq!(
        after[0].source.sha256, list[0].source.sha256,
        "its neighbour changed, it did not"
    );
    assert_ne!(after[1].source.sha256, list[1].source.sha256);
}

#[test]
fn every_reserved_name_that_says_nothing_ran_is_refused_as_expectation() {
    for name in [
        "DID_NOT_RUN",
        "NOT_RUN",
        "NO_TARGET",
        "SKIPPED",
        "UNMEASURED",
        "NOT_CONFIGURED",
        "HARNESS_ERROR",
    ] {
        let text = MINIMAL_CAP.replace("FAIL", name);
        let found = problems("a.cap", &text);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!((found[0].line, found[0].column), (9, 30), "{name}");
        assert!(
            found[0].message.contains(&format!("cannot be `{name}`")),
            "{}",
            found[0].message
        );
        assert!(!NameClass::of(name).may_be_expected());
    }
    for name in ["LEAK", "NOTRUN", "fail", "Fehler"] {
        let text = MINIMAL_CAP.replace("FAIL", name);
        assert!(
            read_str(Path::new("a.cap"), &text).is_ok(),
            "{name} is free"
        );
    }
}

#[test]
fn each_required_key_is_missed_in_both_notations() {
    // The key that each line of the minimal fixtures declares, where it is required.
    let flat = [
        (1, "id"),
        (2, "entry"),
        (3, "requires_cwd"),
        (4, "verdict_channel"),
        (5, "verdict_enum"),
        (9, "calibration_positive_expect"),
        (11, "calibration_negative_expect"),
    ];
    for (line, key) in flat {
        let text: Vec<&str> = (1..)
            .zip(MINIMAL_CAP.lines())
            .filter(|(n, _)| *n != line)
            .map(|(_, l)| l)
            .collect();
        let found = problems("a.cap", &text.join("\n"));
        assert_eq!(found.len(), 1, "{key}");
        assert_eq!(found[0].message, format!("`{key}` is missing"));
        assert_eq!((found[0].line, found[0].column), (1, 1));
    }
    let required: Vec<&str> = Key::ALL
        .iter()
        .filter(|key| key.required() == calibrun::declaration::Required::Always)
        .filter_map(|key| key.flat())
        .collect();
    assert_eq!(required, flat.map(|(_, key)| key));
    let found = problems("a.yaml", "summary: x\n");
    let missing: Vec<&str> = found.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(missing.len(), required.len(), "{missing:?}");
    for key in Key::ALL {
        let wanted = format!("`{}` is missing", key.nested());
        let is_required = key.required() == calibrun::declaration::Required::Always;
        assert_eq!(missing.contains(&wanted.as_str()), is_required, "{wanted}");
    }
    // What claims need is not needed by every declaration.
    let lines: Vec<&str> = MINIMAL_YAML
        .lines()
        .filter(|l| !l.starts_with("constraints"))
        .collect();
    assert!(read_str(Path::new("a.yaml"), &lines.join("\n")).is_ok());
}

#[test]
fn no_prefix_and_no_garbled_fixture_panics() {
    let mut tried = 0_u32;
    for file in fixture_files("valid")
        .into_iter()
        .chain(fixture_files("invalid"))
    {
        let text = text_of(&file);
        let is_flat = file.extension().is_some_and(|e| e == "cap");
        for (end, _) in text.char_indices() {
            check(&file, &text[..end]);
            tried += 1;
        }
        // The same text in the other notation, and with single characters replaced.
        check(Path::new(if is_flat { "a.yaml" } else { "a.cap" }), &text);
        for (turn, (at, c)) in text.char_indices().step_by(5).enumerate() {
            let other = ODD[turn % ODD.len()];
            check(
                &file,
                &format!("{}{other}{}", &text[..at], &text[at + c.len_utf8()..]),
            );
            tried += 1;
        }
    }
    assert!(tried > 10_000, "{tried}");
}

/// Characters that mean something to a reader, or to nobody.
const ODD: [char; 13] = [
    '\0', '\'', '"', '\t', '\n', ':', '[', '{', '&', '*', '|', '\u{feff}', 'é',
];

/// Whatever the text: a result, problems in order, each at a place that exists.
fn check(path: &Path, text: &str) {
    match read_str(path, text) {
        Ok(list) => {
            assert!(!list.is_empty(), "{text:?}");
            for declaration in list {
                assert!(!declaration.id.is_empty() && !declaration.entry[0].is_empty());
                assert!(
                    declaration
                        .verdict
                        .declares(&declaration.calibration.known_positive.expect)
                );
            }
        }
        Err(list) => {
            assert!(!list.is_empty(), "{text:?}");
            assert!(list.is_sorted(), "{list:?}");
            let lines = u32::try_from(text.lines().count() + 1).expect("few lines");
            for problem in list {
                assert!(
                    problem.line >= 1 && problem.line <= lines,
                    "{problem} of {text:?}"
                );
                assert!(problem.column >= 1 && !problem.message.is_empty());
            }
        }
    }
}

#[test]
fn hostile_yaml_is_refused_quickly() {
    let started = std::time::Instant::now();
    for text in [
        "[".repeat(MAX_BYTES - 1),
        "{a: ".repeat(MAX_BYTES / 5),
        "- ".repeat(MAX_BYTES / 2 - 1),
        "- {}\n".repeat(MAX_BYTES / 6),
        "? ".repeat(MAX_BYTES / 2 - 1),
        "a: &a [*a]\n".repeat(1000),
        "'".repeat(MAX_BYTES),
        "a\n ".repeat(MAX_BYTES / 4),
        "a: b\n".repeat(MAX_BYTES / 6),
        (0..4_900).map(|n| format!("x{n}: 1\n")).collect(),
    ] {
        assert!(read_str(Path::new("a.yaml"), &text).is_err());
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn a_file_that_is_too_long_is_refused_and_the_longest_is_read() {
    let padded = |length: usize| {
        let comment = format!("#{}\n", "x".repeat(length - MINIMAL_CAP.len() - 2));
        format!("{comment}{MINIMAL_CAP}")
    };
    for name in ["a.cap", "a.yaml"] {
        let found = problems(name, &padded(MAX_BYTES + 1));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.contains("longer than"),
            "{}",
            found[0].message
        );
    }
    assert!(read_str(Path::new("a.cap"), &padded(MAX_BYTES)).is_ok());
}

#[test]
fn the_extension_chooses_the_notation() {
    assert!(read_str(Path::new("x.cap"), MINIMAL_CAP).is_ok());
    assert!(read_str(Path::new("x.yml"), MINIMAL_YAML).is_ok());
    assert!(read_str(Path::new("x.cap"), MINIMAL_YAML).is_err());
    let found = problems("x.txt", MINIMAL_CAP);
    assert_eq!(
        found[0].message,
        "the notation cannot be told from the file's name"
    );
}

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    fs::write(path, text).expect("file");
}

fn names(folder: &Path, files: &[PathBuf]) -> Vec<String> {
    files
        .iter()
        .map(|file| {
            file.strip_prefix(folder)
                .expect("below")
                .display()
                .to_string()
        })
        .collect()
}

#[test]
fn a_folder_is_searched_for_declarations_only() {
    let temp = tempfile::tempdir().expect("temp folder");
    let top = temp.path();
    write(top, "z.cap", MINIMAL_CAP);
    write(
        top,
        "a/list.yml",
        format!("- {}", MINIMAL_YAML.replace('\n', "\n  ").trim_end()),
    );
    write(top, "a/one.yaml", MINIMAL_YAML);
    write(top, ".hidden/two.yaml", MINIMAL_YAML);
    write(top, "broken.yaml", "id: x\nentry: [\n");
    // None of these is one.
    write(top, ".git/inside.cap", MINIMAL_CAP);
    write(top, "sub/.git/inside.yaml", MINIMAL_YAML);
    write(top, "other.yaml", "name: x\nsteps: [{id: a, entry: b}]\n");
    write(top, "template.yaml", "a: {{ .Values.id }}\n");
    write(
        top,
        ".pre-commit-hooks.yaml",
        "- id: x\n  entry: y\n  language: z\n",
    );
    write(top, "notes.md", "id: x\nentry: y\n");
    write(top, "folder.cap/readme.txt", "x");
    std::os::unix::fs::symlink("z.cap", top.join("a_link.cap")).expect("link");
    std::os::unix::fs::symlink("nowhere", top.join("dangling.cap")).expect("link");

    let files = find(top).expect("searched");
    assert_eq!(
        names(top, &files),
        [
            ".hidden/two.yaml",
            "a/list.yml",
            "a/one.yaml",
            "broken.yaml",
            "z.cap"
        ]
    );

    let Err(ReadError::Invalid(found)) = read(top) else {
        panic!("one file is broken")
    };
    assert!(
        found.iter().all(|p| p.path == top.join("broken.yaml")),
        "{found:?}"
    );
    fs::remove_file(top.join("broken.yaml")).expect("removed");
    let list = read(top).expect("all are valid now");
    let sources: Vec<PathBuf> = list.into_iter().map(|d| d.source.path).collect();
    assert_eq!(
        names(top, &sources),
        [".hidden/two.yaml", "a/list.yml", "a/one.yaml", "z.cap"]
    );
}

#[test]
fn problems_of_all_files_are_reported_at_once() {
    let temp = tempfile::tempdir().expect("temp folder");
    write(
        temp.path(),
        "b.cap",
        MINIMAL_CAP.replace("read-only", "never"),
    );
    write(temp.path(), "a.yaml", MINIMAL_YAML.replace("SELF", "here"));
    write(temp.path(), "c.cap", MINIMAL_CAP);
    let Err(error) = read(temp.path()) else {
        panic!("two files are broken")
    };
    let shown = error.to_string();
    let ReadError::Invalid(found) = error else {
        panic!("{error}")
    };
    let files: Vec<&Path> = found.iter().map(|p| p.path.as_path()).collect();
    assert_eq!(
        files,
        [temp.path().join("a.yaml"), temp.path().join("b.cap")]
    );
    assert!(
        shown.contains("a.yaml:3:15: ") && shown.contains("b.cap:6:9: "),
        "{shown}"
    );
}

#[test]
fn what_holds_no_declaration_says_so() {
    let temp = tempfile::tempdir().expect("temp folder");
    let top = temp.path();
    assert_eq!(find(top).expect("searched"), [] as [PathBuf; 0]);
    assert!(matches!(read(top), Err(ReadError::NoneFound { .. })));
    assert!(matches!(
        read(&top.join("nowhere.cap")),
        Err(ReadError::Stat { .. })
    ));
    write(top, "registry.md", "```yaml\nid: x\n```\n");
    let Err(error) = read(&top.join("registry.md")) else {
        panic!("Markdown is not read")
    };
    assert!(matches!(error, ReadError::Markdown { .. }));
    assert!(error.to_string().contains("Markdown"), "{error}");
    write(top, "notes.txt", MINIMAL_CAP);
    assert!(matches!(
        read(&top.join("notes.txt")),
        Err(ReadError::Extension { .. })
    ));
    assert!(matches!(
        read(Path::new("/dev/null")),
        Err(ReadError::NotAFile { .. })
    ));
}

#[test]
fn bytes_that_are_not_utf8_are_reported_at_their_place() {
    let temp = tempfile::tempdir().expect("temp folder");
    write(temp.path(), "a.cap", b"id: x\nsummary: \xc3\xa9 \xff\n");
    let Err(ReadError::Invalid(found)) = read(&temp.path().join("a.cap")) else {
        panic!("not text")
    };
    assert_eq!((found[0].line, found[0].column), (2, 12));
    assert_eq!(found[0].message, "byte 0xff is not UTF-8");
    write(temp.path(), "b.cap", vec![0xc3; MAX_BYTES + 10]);
    let Err(ReadError::Invalid(found)) = read(&temp.path().join("b.cap")) else {
        panic!("too long")
    };
    assert!(
        found[0].message.contains("longer than"),
        "{}",
        found[0].message
    );
}

#[test]
fn the_docs_page_has_the_generated_tables_and_its_examples_are_valid() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/declarations.md");
    let page = text_of(&page);
    for table in [keys_table(), axes_table()] {
        assert!(
            page.contains(&table),
            "docs/declarations.md lacks this table:\n{table}"
        );
    }
    let mut examples = 0;
    for (fence, name) in [("```yaml\n", "example.yaml"), ("```text\n", "example.cap")] {
        for block in page.split(fence).skip(1) {
            let text = block.split("```").next().expect("a fence is closed");
            match read_str(Path::new(name), text) {
                Ok(list) => assert_eq!(list.len(), 1),
                Err(list) => panic!("{}", list[0]),
            }
            examples += 1;
        }
    }
    assert!(examples >= 2, "{examples} examples");
}
