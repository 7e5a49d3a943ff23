//! Every format, on results that were judged from hand-made records.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use calibrun_sandbox::{Effect, Gap, Mark, Output, Place, Termination};
use serde_json::Value;

use super::*;
use crate::record::{Observed, UndoOutcome};
use crate::verdict::sample::{ask, ask_declared, at, change, command, declared, layers, on};
use crate::verdict::{Claims, Question, judge};
use crate::workspace::{ChangeKind, Difference, PathState, Residue};

fn judged(record: Record, question: &Question) -> Capability {
    Capability::Judged(Box::new(Judged {
        id: Some("lane-suite".into()),
        declaration: Some(DeclarationRef {
            path: "caps/lane.yaml".into(),
            line: 3,
            sha256: "ab".repeat(32),
        }),
        verdict: judge(&record, question),
        record,
        roots: Roots {
            home: Some("/home/dev".into()),
            scratch: vec!["/tmp/s".into()],
        },
    }))
}

fn results(capabilities: Vec<Capability>) -> Results {
    Results {
        host: Host {
            kernel: "6.18.0".into(),
            machine: "x86_64".into(),
            layers: layers(),
        },
        controls: command(vec![], vec![], vec![]).controls,
        capabilities,
    }
}

fn quiet() -> Capability {
    judged(declared(), &ask_declared())
}

/// The incident: an undeclared arm removes a folder of scripts.
fn incident() -> Capability {
    let mut record = declared();
    let remove = |path, state| on(Effect::Remove, path, state);
    record.arms[2].passes[0].observed = vec![
        remove("scripts/deploy.sh", PathState::Clean),
        remove("scripts/local1.sh", PathState::Untracked),
        at(Effect::Create, Place::Home, "/home/dev/.cache", false),
        at(Effect::Create, Place::Scratch, "/tmp/s/x", false),
    ];
    judged(record, &ask_declared())
}

fn failed() -> Capability {
    Capability::Failed(Failed {
        id: Some("broken".into()),
        declaration: None,
        error: "cannot clone: \u{1b}[31mno such folder".into(),
    })
}

fn open() -> Capability {
    let mut record = command(vec![], vec![], vec![]);
    record.contained().run.termination = Termination::TimedOut;
    judged(record, &ask())
}

fn unclaimed() -> Capability {
    let question = Question {
        claims: Claims::default(),
        ..ask()
    };
    judged(command(vec![], vec![], vec![]), &question)
}

fn json(results: &Results) -> Value {
    serde_json::from_str(&json::document(results).expect("JSON")).expect("valid")
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn a_batch_comes_out_as_its_gravest_by_meaning() {
    for (capabilities, code, verdict) in [
        (vec![quiet()], 0, Some("verified")),
        (vec![unclaimed()], 0, None),
        (vec![unclaimed(), quiet()], 0, Some("verified")),
        (vec![quiet(), open()], 3, Some("claim-only")),
        (vec![open(), incident(), quiet()], 1, Some("contradicted")),
        (
            vec![incident(), failed(), open()],
            10,
            Some("harness-error"),
        ),
        // Nothing judged must not pass.
        (vec![], 10, Some("harness-error")),
    ] {
        let results = results(capabilities);
        assert_eq!(results.exit_code().code(), code);
        assert_eq!(results.outcome().name(), verdict);
    }
    let all = results(vec![quiet(), incident(), open(), failed(), unclaimed()]);
    assert_eq!(
        all.summary(),
        Summary {
            verified: 1,
            contradicted: 1,
            claim_only: 1,
            harness_error: 1
        }
    );
}

#[test]
fn json_keys_stand_in_the_documented_order() {
    let results = results(vec![incident()]);
    // The order is in the text; parsing keeps it.
    let doc = json(&results);
    assert_eq!(
        keys(&doc),
        [
            "schema",
            "verdict",
            "summary",
            "host",
            "controls",
            "capabilities"
        ]
    );
    assert_eq!(doc["schema"], SCHEMA);
    assert_eq!(
        keys(&doc["controls"]),
        ["writes", "seen", "denied", "reader_attempts", "failures"]
    );
    let entry = &doc["capabilities"][0];
    assert_eq!(
        keys(entry),
        [
            "id",
            "declaration",
            "commit",
            "dirty",
            "tree",
            "verdict",
            "error",
            "axes",
            "arms",
            "coverage"
        ]
    );
    assert_eq!(
        keys(&entry["axes"]["writes"]),
        [
            "declared",
            "observed",
            "egress",
            "delegated",
            "status",
            "reasons"
        ]
    );
    assert_eq!(
        keys(&entry["axes"]["reversibility"]),
        ["declared", "observed", "status", "reasons"]
    );
    let attempt = &entry["arms"][2]["passes"][0]["attempts"][0];
    assert_eq!(
        keys(attempt)[..7],
        [
            "effect", "place", "path", "outcome", "counted", "program", "count"
        ]
    );
    // Every key is described.
    let page = include_str!("../../docs/outputs.md");
    fn check(value: &Value, page: &str) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    assert!(page.contains(&format!("`{key}`")), "{key} is not described");
                    check(value, page);
                }
            }
            Value::Array(all) => all.iter().for_each(|value| check(value, page)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    check(&doc, page);
    for key in ["path_bytes", "to", "to_bytes", "argv_bytes", "bytes"] {
        assert!(page.contains(&format!("`{key}`")), "{key} is not described");
    }
}

#[test]
fn json_says_what_was_found_and_on_what_it_rests() {
    let doc = json(&results(vec![incident()]));
    let entry = &doc["capabilities"][0];
    assert_eq!(entry["verdict"], "contradicted");
    assert_eq!(entry["declaration"]["line"], 3);
    assert_eq!(entry["axes"]["writes"]["observed"], "write-local");
    let reason = &entry["axes"]["writes"]["reasons"][0];
    assert_eq!(reason["code"], "write-attempted");
    assert_eq!(reason["arm"], "no_args");
    assert_eq!(reason["pass"], "denied");
    assert_eq!(reason["path"], "scripts/deploy.sh");
    assert_eq!(entry["axes"]["reversibility"]["observed"], "irreversible");
    let attempts = &entry["arms"][2]["passes"][0]["attempts"];
    assert_eq!(attempts[1]["path"], "scripts/local1.sh");
    assert_eq!(attempts[1]["before"], "untracked");
    assert_eq!(attempts[2]["path"], "{home}/.cache");
    assert_eq!(attempts[2]["reason"], "outside-attempted");
    assert_eq!(attempts[3]["path"], "{scratch}/x");
    assert_eq!(attempts[3]["counted"], false);
    assert_eq!(attempts[3]["not_counted"], "scratch");
    assert_eq!(attempts[3]["reason"], Value::Null);
    let positive = &entry["arms"][0];
    assert_eq!(positive["declared"], true);
    assert_eq!(positive["expect"], "PASS");
    assert_eq!(positive["passes"][1]["verdict"], "PASS");
    assert_eq!(positive["passes"][1]["termination"]["exited"], 0);
    assert_eq!(entry["coverage"]["complete"], true);
    assert!(
        !json::document(&results(vec![incident()]))
            .expect("JSON")
            .contains("\"pid\"")
    );
}

#[test]
fn json_keeps_what_is_not_utf_8_without_loss() {
    let odd = OsString::from_vec(b"bad-\xff".to_vec());
    let mut remove = on(Effect::Remove, "x", PathState::Clean);
    remove.path = Some(odd.clone().into());
    remove = remove.onto("y", PathState::Absent);
    remove.to_path = Some(odd.clone().into());
    let mut record = command(vec![remove], vec![], vec![]);
    record.arms[0].argv.push(odd);
    record.contained().run.stdout = Output {
        bytes: b"\xffout".to_vec(),
        dropped: 4,
    };
    record.contained().run.stderr.bytes = "caf\u{e9}".into();
    let doc = json(&results(vec![judged(record, &ask())]));
    let arm = &doc["capabilities"][0]["arms"][0];
    let attempt = &arm["passes"][0]["attempts"][0];
    assert_eq!(attempt["path"], "bad-\u{fffd}");
    assert_eq!(attempt["path_bytes"], "YmFkLf8=");
    assert_eq!(attempt["to_bytes"], "YmFkLf8=");
    assert_eq!(arm["argv_bytes"][1], "YmFkLf8=");
    let contained = &arm["passes"][1];
    assert_eq!(contained["stdout"]["bytes"], "/291dA==");
    assert_eq!(contained["stdout"]["dropped"], 4);
    assert_eq!(contained["stderr"]["text"], "caf\u{e9}");
    assert_eq!(contained["stderr"].get("bytes"), None);
    let reason = &doc["capabilities"][0]["axes"]["writes"]["reasons"][0];
    assert_eq!(reason["path_bytes"], "YmFkLf8=");
}

#[test]
fn json_without_a_claim_has_null_for_what_is_not_claimed() {
    let doc = json(&results(vec![unclaimed()]));
    assert_eq!(doc["verdict"], Value::Null);
    let axes = &doc["capabilities"][0]["axes"];
    for axis in ["writes", "reversibility"] {
        assert_eq!(axes[axis]["declared"], Value::Null);
        assert_eq!(axes[axis]["status"], Value::Null);
    }
    assert_eq!(axes["writes"]["observed"], "read-only");
    assert_eq!(axes["reversibility"]["observed"], "reversible");
}

#[test]
fn json_lines_have_one_capability_each() {
    let results = results(vec![quiet(), failed()]);
    let text = json::lines(&results).expect("JSON");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("valid"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(keys(&lines[0])[..2], ["schema", "id"]);
    assert_eq!(lines[1]["verdict"], "harness-error");
    assert_eq!(lines[1]["error"], "cannot clone: \u{1b}[31mno such folder");
    assert_eq!(lines[1]["axes"], Value::Null);
}

#[test]
fn coverage_is_complete_only_when_nothing_hid_an_attempt() {
    let of = |record: Record| {
        let doc = json(&results(vec![judged(record, &ask())]));
        doc["capabilities"][0]["coverage"].clone()
    };
    assert_eq!(of(command(vec![], vec![], vec![]))["complete"], true);
    let mut timed_out = command(vec![], vec![], vec![]);
    timed_out.contained().run.termination = Termination::TimedOut;
    assert_eq!(of(timed_out)["complete"], false);
    let mut one_pass = command(vec![], vec![], vec![]);
    one_pass.arms[0].passes.pop();
    assert_eq!(of(one_pass)["complete"], false);
    let mut gap = command(vec![], vec![], vec![]);
    gap.contained().run.gaps = vec![Gap::NoMounts, Gap::NoMounts];
    gap.notes = vec!["fresh HOME".into()];
    let coverage = of(gap);
    assert_eq!(coverage["complete"], false);
    assert_eq!(coverage["gaps"].as_array().map(Vec::len), Some(2));
    assert_eq!(coverage["gaps"][0]["code"], "no-mounts");
    assert_eq!(coverage["gaps"][1]["detail"], "fresh HOME");
}

#[test]
fn the_report_says_first_what_was_found_then_why_then_what_was_not_seen() {
    let text = text::render(&results(vec![incident()]), &Style::plain());
    let places = [
        "contradicted: lane-suite",
        "declared in caps/lane.yaml, line 3",
        "contradicted  declared read-only",
        "seen: write-local",
        "Why",
        "writes: write-attempted",
        "2 attempts, listed below",
        "reversibility: untracked-lost",
        "Attempts that count",
        "remove scripts/deploy.sh",
        "no_args, denied pass, by prog, 1 time, denied: write-attempted",
        "create {home}/.cache",
        "Seen and not counted",
        "1 attempt: in the arm's own temp folder",
        "Arms",
        "known_negative, contained pass: exit code 1, FAIL",
        "Not seen",
        "declared verdict DID_NOT_RUN never occurred",
    ];
    let mut from = 0;
    for place in places {
        let at = text[from..].find(place);
        from += at.unwrap_or_else(|| panic!("{place:?} is missing or too early:\n{text}"));
    }
}

#[test]
fn the_report_of_a_batch_begins_with_its_summary() {
    let text = text::render(&results(vec![quiet(), failed()]), &Style::plain());
    assert!(text.starts_with("verified 1, contradicted 0, claim-only 0, harness error 1\n"));
    assert!(text.contains("\nharness-error: broken\n  cannot clone: \\u{1b}[31mno such folder\n"));
}

/// A record in which the subject controls every text that it can.
fn hostile() -> Record {
    let long = format!("deep/\u{1b}]0;title\u{7}/{}\u{202e}", "x".repeat(200));
    let hostile = |mut o: Observed| {
        o.path = Some(long.clone().into());
        o.attempt.program = "\u{1b}[2Jsh\n".into();
        o
    };
    let mut record = command(
        vec![
            hostile(on(Effect::Remove, "x", PathState::Untracked)),
            at(Effect::Connect, Place::Egress, "\u{1b}[31m", false),
            at(Effect::Create, Place::Outside, "/\u{9b}31m\n", false).marked(Mark::AbsentHere),
        ],
        vec![],
        vec![change(&long, ChangeKind::Content, PathState::Ignored)],
    )
    .undone(UndoOutcome::Residue(vec![Residue {
        path: "\u{1b}c".into(),
        what: Difference::Content,
    }]));
    record.contained().run.termination = Termination::Exited(127);
    record.contained().run.stderr.bytes = b"one\n\x1b[31mtwo\xff\n\n\x07three\nfour\n".to_vec();
    record.not_carried = vec!["\u{1b}[1m".into()];
    record.notes = vec!["\u{e9}\r".into()];
    record.layers.missing = vec!["user namespace: \u{1b}".into()];
    record
}

#[test]
fn the_report_is_plain_ascii_in_80_columns_whatever_the_subject_wrote() {
    let text = text::render(
        &results(vec![
            judged(hostile(), &ask()),
            incident(),
            failed(),
            open(),
            unclaimed(),
        ]),
        &Style::plain(),
    );
    for line in text.lines() {
        assert!(line.len() <= 80, "{} columns: {line}", line.len());
        assert!(line.bytes().all(|b| (b' '..=b'~').contains(&b)), "{line:?}");
        assert_eq!(line, line.trim_end(), "{line:?}");
    }
    assert!(text.contains("stderr: \\u{7}three"), "{text}");
    assert!(text.contains("\\u{1b}[31mtwo\\xff"));
    assert!(
        !text.contains("stderr: one"),
        "only the last lines are shown"
    );
}

#[test]
fn colour_adds_nothing_but_colour() {
    let results = results(vec![incident(), open(), quiet(), failed()]);
    let plain = text::render(&results, &Style::plain());
    let colored = text::render(&results, &Style::colored());
    assert!(colored.contains("\u{1b}["));
    let mut stripped = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        stripped.push_str(before);
        rest = after.split_once('m').expect("a closed sequence").1;
    }
    stripped.push_str(rest);
    assert_eq!(stripped, plain);
}

#[test]
fn nothing_judged_says_so() {
    let text = text::render(&results(vec![]), &Style::plain());
    assert_eq!(text, "Nothing was judged.\n");
}
