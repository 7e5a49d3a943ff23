//! The JSON document: every key that the outputs page promises, in its type, and no other.

use serde_json::Value;

use super::environment::TestEnvironment;

/// What stands under a key.
enum Shape {
    Text,
    TextOrNull,
    Flag,
    Count,
    CountOrNull,
    Null,
    Texts,
    OneOf(&'static [&'static str]),
    OneOfOrNull(&'static [&'static str]),
    Each(fn(&Value)),
    Object(fn(&Value)),
    ObjectOrNull(fn(&Value)),
    Any,
}

/// Asserts that `value` is an object of exactly `keys`; keys that end in `?` may be missing, and each
/// may have a twin in base64.
#[track_caller]
fn object(value: &Value, keys: &[(&str, Shape)]) {
    let map = value
        .as_object()
        .unwrap_or_else(|| panic!("no object: {value}"));
    for (key, shape) in keys {
        let name = key.trim_end_matches('?');
        match map.get(name) {
            Some(found) => assert!(fits(found, shape), "{name}: {found}"),
            None => assert!(key.ends_with('?'), "no {name} in {value}"),
        }
    }
    for key in map.keys() {
        let plain = key.strip_suffix("_bytes").unwrap_or(key);
        let known = |k: &str| keys.iter().any(|(name, _)| name.trim_end_matches('?') == k);
        assert!(known(key) || known(plain), "unknown key {key} in {value}");
    }
}

fn fits(value: &Value, shape: &Shape) -> bool {
    let text = |v: &Value, of: &[&str]| v.as_str().is_some_and(|s| of.contains(&s));
    match shape {
        Text => value.is_string(),
        TextOrNull => value.is_string() || value.is_null(),
        Flag => value.is_boolean(),
        Count => value.is_u64(),
        CountOrNull => value.is_u64() || value.is_null(),
        Null => value.is_null(),
        Texts => value
            .as_array()
            .is_some_and(|l| l.iter().all(Value::is_string)),
        OneOf(of) => text(value, of),
        OneOfOrNull(of) => value.is_null() || text(value, of),
        Each(check) => match value.as_array() {
            Some(list) => {
                list.iter().for_each(check);
                true
            }
            None => false,
        },
        Object(check) => {
            check(value);
            true
        }
        ObjectOrNull(check) => {
            if !value.is_null() {
                check(value);
            }
            true
        }
        Any => true,
    }
}

use Shape::{
    Any, Count, CountOrNull, Each, Flag, Null, Object, ObjectOrNull, OneOf, OneOfOrNull, Text,
    TextOrNull, Texts,
};

const OUTCOMES: &[&str] = &["verified", "contradicted", "claim-only", "harness-error"];
const STATUSES: &[&str] = &["verified", "contradicted", "claim-only"];
const WRITES: &[&str] = &["read-only", "write-local", "write-remote"];
const PASSES: &[&str] = &["denied", "contained"];
const ARMS: &[&str] = &["known_positive", "known_negative", "no_args", "command"];
const EFFECTS: &[&str] = &[
    "create",
    "write-open",
    "truncate",
    "remove",
    "rename",
    "link",
    "mode",
    "owner",
    "times",
    "xattr",
    "flags",
    "connect",
    "bind",
    "send",
    "signal",
    "limit",
    "mount",
    "kernel",
];
const PLACES: &[&str] = &[
    "worktree",
    "git-dir",
    "home",
    "outside",
    "scratch",
    "ipc",
    "self",
    "device-sink",
    "name-service",
    "delegated",
    "egress",
];
const STATES: &[&str] = &[
    "clean",
    "staged",
    "uncommitted",
    "untracked",
    "ignored",
    "git-internal",
    "canary",
    "absent",
    "not-in-clone",
];
const HARMLESS: &[&str] = &[
    "no-op",
    "scratch",
    "ipc",
    "self",
    "device-sink",
    "name-service",
    "address-probe",
    "route-query",
    "runner",
    "write-open-without-effect",
    "index-refresh",
];
const KINDS: &[&str] = &[
    "created",
    "removed",
    "content",
    "executable",
    "mode",
    "owner",
    "xattr",
    "flags",
    "times",
    "inode",
];

fn document(value: &Value) {
    object(
        value,
        &[
            ("schema", OneOf(&["calibrun.report/v1"])),
            ("verdict", OneOfOrNull(OUTCOMES)),
            ("summary", Object(summary)),
            ("host", Object(host)),
            ("controls", Object(controls)),
            ("capabilities", Each(capability)),
        ],
    );
}

fn summary(value: &Value) {
    let keys = ["verified", "contradicted", "claim_only", "harness_error"];
    object(value, &keys.map(|key| (key, Count)));
}

fn host(value: &Value) {
    object(
        value,
        &[
            ("kernel", Text),
            ("machine", Text),
            ("layers", Object(layers)),
        ],
    );
}

fn layers(value: &Value) {
    let flags = [
        "listener",
        "no_new_privs",
        "capabilities_dropped",
        "user_namespace",
        "mounts",
        "temp_overlay",
        "net_namespace",
        "uts_namespace",
        "home_overlay",
        "pid_namespace",
        "ipc_namespace",
    ];
    let mut keys: Vec<(&str, Shape)> = flags.into_iter().map(|key| (key, Flag)).collect();
    keys.push(("landlock_abi", CountOrNull));
    keys.push(("missing", Texts));
    object(value, &keys);
}

fn controls(value: &Value) {
    object(
        value,
        &[
            ("writes", Count),
            ("seen", Count),
            ("denied", Count),
            ("reader_attempts", Count),
            ("failures", Texts),
        ],
    );
}

fn capability(value: &Value) {
    object(
        value,
        &[
            ("id", TextOrNull),
            ("declaration", ObjectOrNull(declaration)),
            ("commit", TextOrNull),
            ("dirty", Any),
            ("tree", Null),
            ("verdict", OneOfOrNull(OUTCOMES)),
            ("error", TextOrNull),
            ("axes", ObjectOrNull(axes)),
            ("arms", Each(arm)),
            ("coverage", ObjectOrNull(coverage)),
        ],
    );
}

fn declaration(value: &Value) {
    object(value, &[("path", Text), ("line", Count), ("sha256", Text)]);
    assert_eq!(value["sha256"].as_str().map(str::len), Some(64));
}

fn axes(value: &Value) {
    object(
        value,
        &[
            ("writes", Object(writes)),
            ("reversibility", Object(reversibility)),
        ],
    );
}

fn writes(value: &Value) {
    object(
        value,
        &[
            ("declared", OneOfOrNull(WRITES)),
            ("observed", OneOf(WRITES)),
            ("egress", Flag),
            ("delegated", Flag),
            ("status", OneOfOrNull(STATUSES)),
            ("reasons", Each(reason)),
        ],
    );
}

fn reversibility(value: &Value) {
    let values = &["reversible", "irreversible", "unknown"];
    object(
        value,
        &[
            ("declared", OneOfOrNull(values)),
            ("observed", OneOf(values)),
            ("status", OneOfOrNull(STATUSES)),
            ("reasons", Each(reason)),
        ],
    );
}

fn reason(value: &Value) {
    object(
        value,
        &[
            ("code", Text),
            ("arm", OneOfOrNull(ARMS)),
            ("pass", OneOfOrNull(PASSES)),
            ("effect", OneOfOrNull(EFFECTS)),
            ("path", TextOrNull),
            ("to", TextOrNull),
            ("program", TextOrNull),
            ("count", Count),
            ("detail", TextOrNull),
        ],
    );
}

fn arm(value: &Value) {
    object(
        value,
        &[
            ("name", OneOf(ARMS)),
            ("declared", Flag),
            ("argv", Texts),
            ("expect", TextOrNull),
            ("passes", Each(pass)),
        ],
    );
    let names: Vec<&Value> = value["passes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|pass| &pass["name"])
        .collect();
    assert_eq!(names, PASSES);
}

fn pass(value: &Value) {
    object(
        value,
        &[
            ("name", OneOf(PASSES)),
            ("termination", Any),
            ("verdict", TextOrNull),
            ("verdict_error", TextOrNull),
            ("attempts", Each(attempt)),
            ("changes", Each(change)),
            ("undo", Any),
            ("residue", Each(|at| object(at, &[("path", Text)]))),
            ("stdout", Object(output)),
            ("stderr", Object(output)),
        ],
    );
}

fn output(value: &Value) {
    object(
        value,
        &[("text", Text), ("bytes?", Text), ("dropped", Count)],
    );
}

fn attempt(value: &Value) {
    object(
        value,
        &[
            ("effect", OneOf(EFFECTS)),
            ("place", OneOf(PLACES)),
            ("path", TextOrNull),
            ("to?", TextOrNull),
            ("outcome", OneOf(&["denied", "no-op", "allowed", "unknown"])),
            ("counted", Flag),
            ("program", Text),
            ("count", Count),
            ("reason", TextOrNull),
            ("not_counted", OneOfOrNull(HARMLESS)),
            ("before", OneOf(STATES)),
            ("marks", Texts),
            ("call", Text),
        ],
    );
    // It counts, or leaves a claim open, or there is a word for why not; never both.
    assert!(
        value["reason"].is_null() != value["not_counted"].is_null(),
        "{value}"
    );
}

fn change(value: &Value) {
    object(
        value,
        &[
            ("path", Text),
            ("before", OneOf(STATES)),
            ("kind", OneOf(KINDS)),
        ],
    );
}

fn coverage(value: &Value) {
    object(
        value,
        &[
            ("complete", Flag),
            (
                "gaps",
                Each(|gap| object(gap, &[("code", Text), ("detail", Text)])),
            ),
            ("not_seen", Texts),
        ],
    );
}

#[test]
fn every_document_has_every_promised_key_in_its_type_and_no_other() {
    let env = TestEnvironment::new();
    let (incident, honest) = (env.fixture("incident"), env.fixture("honest"));
    let probe = ["probe", "--format", "json", "."];
    document(&env.run(&incident, &probe).exits(1).json());
    document(&env.run(&honest, &probe).exits(0).json());
    document(&env.run(&env.home(), &probe).exits(10).json());
    let repo = env.repo("field");
    let argvs: [&[&str]; 4] = [
        &["mv", "README.md", "moved.md"],
        &["cat", "README.md"],
        &["sh", "-c", "kill -9 $$"],
        &[
            "python3",
            "-c",
            "import socket; socket.create_connection(('192.0.2.1', 9), 1)",
        ],
    ];
    for argv in argvs {
        document(&env.observe(&repo, &[], argv).json());
    }
}

#[test]
fn a_rename_has_both_ends_and_names_of_other_bytes_are_kept() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let script = "mv README.md \"$(printf 'a\\377b')\"";
    let session = env.observe(&repo, &[], &["sh", "-c", script]).exits(1);
    document(&session.json());
    let capability = session.capability();
    let attempts = &capability["arms"][0]["passes"][1]["attempts"];
    let list = attempts.as_array().expect("attempts");
    let rename = list.iter().find(|a| a["effect"] == "rename");
    let rename = rename.unwrap_or_else(|| panic!("no rename in {attempts}"));
    assert_eq!(rename["path"], "README.md");
    assert_eq!(rename["to"], "a\u{fffd}b");
    // The bytes 61 ff 62.
    assert_eq!(rename["to_bytes"], "Yf9i");
}
