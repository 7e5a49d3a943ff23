//! The rules of a declaration, once for both notations: from written values to the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::keys::{Key, Required};
use super::model::{
    ArmSpec, Calibration, Channel, Constraints, Cwd, Declaration, Input, InputStdin, NameClass,
    Notation, Property, Source, VerdictSpec,
};
use super::problem::{Pos, Problems, nearest, one_of, quoted};
use super::written::{Code, Spot, Value, Word, Written};
use crate::contract::{
    Approval, Axis, Degrade, Judge, Residency, Reversibility, TierFloor, Writes,
};

/// Highest exit code that can mean a verdict: a shell uses 126 and 127 for what it could not run,
/// and those above for signals.
const MAX_CODE: u8 = 125;

/// Checks one declaration. `None` only after a problem has been reported.
pub(super) fn assemble(
    path: &Path,
    notation: Notation,
    written: Written,
    problems: &mut Problems,
) -> Option<Declaration> {
    let source = Source {
        path: path.to_owned(),
        line: written.start.line,
        sha256: written.sha256,
        notation,
    };
    let mut rules = Rules {
        notation,
        start: written.start,
        values: written.values,
        problems,
    };
    let id = rules.id();
    let summary = rules.text(Key::Summary).map(|spot| spot.value);
    let tags = rules.words(Key::Tags).map(|words| rules.tags(words));
    let entry = rules.entry();
    let requires_cwd = rules.requires_cwd();
    let input = rules.input();
    let channel = rules.choice(Key::VerdictChannel, Channel::NAMES, Channel::parse);
    let codes = rules.codes();
    let stdout_key = rules.stdout_key();
    let constraints = rules.constraints(codes.as_ref());
    let known_positive = rules.arm(
        Key::PositiveArgs,
        Key::PositiveStdin,
        Key::PositiveExpect,
        codes.as_ref(),
    );
    let known_negative = rules.arm(
        Key::NegativeArgs,
        Key::NegativeStdin,
        Key::NegativeExpect,
        codes.as_ref(),
    );
    let upstream_argv = rules.yes_or_no(Key::UpstreamArgv);
    let echoes_upstream = rules.yes_or_no(Key::EchoesUpstream);
    let registered = rules.registered();
    let probe_ref = rules.text(Key::ProbeRef).map(|spot| spot.value);
    let properties = rules.properties();
    rules.missing(channel);
    Some(Declaration {
        id: id?,
        summary,
        tags: tags.unwrap_or_default(),
        entry: entry?,
        requires_cwd: requires_cwd?,
        input,
        verdict: VerdictSpec {
            channel: channel?,
            codes: codes?,
            stdout_key,
        },
        constraints,
        calibration: Calibration {
            known_positive: known_positive?,
            known_negative: known_negative?,
        },
        upstream_argv,
        echoes_upstream,
        registered,
        probe_ref,
        properties,
        source,
    })
}

/// Reports a value that is not among `names`.
pub(super) fn not_one_of(
    at: Pos,
    what: &str,
    written: &str,
    names: &[&str],
    problems: &mut Problems,
) {
    let help = nearest(written, names).map(|near| format!("did you mean `{near}`?"));
    problems.push(
        at,
        format!("{what} must be {}, not {}", one_of(names), quoted(written)),
        help,
    );
}

struct Rules<'p> {
    notation: Notation,
    start: Pos,
    values: BTreeMap<Key, Spot<Value>>,
    problems: &'p mut Problems,
}

impl Rules<'_> {
    fn name(&self, key: Key) -> String {
        format!("`{}`", key.name(self.notation))
    }

    fn text(&self, key: Key) -> Option<Spot<String>> {
        match self.values.get(&key) {
            Some(Spot {
                at,
                value: Value::Text(text),
            }) => Some(Spot {
                at: *at,
                value: text.clone(),
            }),
            _ => None,
        }
    }

    fn words(&self, key: Key) -> Option<Spot<Vec<Word>>> {
        match self.values.get(&key) {
            Some(Spot {
                at,
                value: Value::Words(words),
            }) => Some(Spot {
                at: *at,
                value: words.clone(),
            }),
            _ => None,
        }
    }

    /// Reports each required key that does not occur, at the declaration's start.
    fn missing(&mut self, channel: Option<Channel>) {
        for key in Key::ALL {
            if self.values.contains_key(key) {
                continue;
            }
            let name = self.name(*key);
            match key.required() {
                Required::Always => {
                    self.problems
                        .help(self.start, format!("{name} is missing"), key.about());
                }
                Required::WithStdout => {
                    if let Some(channel) = channel.filter(|channel| channel.reads_stdout()) {
                        self.problems.help(
                            self.start,
                            format!("{name} is missing, the channel `{channel}` needs it"),
                            key.about(),
                        );
                    }
                }
                Required::No => {}
            }
        }
    }

    fn id(&mut self) -> Option<String> {
        let id = self.text(Key::Id)?;
        if id.value.is_empty()
            || id
                .value
                .contains(|c: char| c.is_whitespace() || c.is_control())
        {
            self.problems.help(
                id.at,
                format!("`id` must be one word, not {}", quoted(&id.value)),
                "such as `project:capability`",
            );
            return None;
        }
        Some(id.value)
    }

    fn tags(&mut self, tags: Spot<Vec<Word>>) -> Vec<String> {
        for tag in &tags.value {
            if tag.value.as_ref().is_some_and(|tag| tag.trim().is_empty()) {
                self.problems.add(tag.at, "an empty tag");
            }
        }
        plain(tags.value)
    }

    fn entry(&mut self) -> Option<Vec<String>> {
        let entry = self.words(Key::Entry)?;
        match entry.value.first() {
            None => {
                self.problems
                    .help(entry.at, "`entry` is empty", Key::Entry.about());
                None
            }
            Some(first) if first.value.as_deref() == Some("") => {
                self.problems
                    .add(first.at, "the program of `entry` is an empty string");
                None
            }
            Some(_) => Some(plain(entry.value)),
        }
    }

    fn requires_cwd(&mut self) -> Option<Cwd> {
        let cwd = self.text(Key::RequiresCwd)?;
        if cwd.value == "SELF" {
            return Some(Cwd::SelfRepo);
        }
        if cwd.value.starts_with('/') {
            return Some(Cwd::Absolute(PathBuf::from(cwd.value)));
        }
        let help = if cwd.value.eq_ignore_ascii_case("self") {
            "did you mean `SELF`?"
        } else if cwd.value.starts_with(['~', '$']) {
            "nothing is expanded: write the path out"
        } else {
            "`SELF` stands for the top of the repo that holds the declaration"
        };
        self.problems.help(
            cwd.at,
            format!(
                "`requires_cwd` must be `SELF` or an absolute path, not {}",
                quoted(&cwd.value)
            ),
            help,
        );
        None
    }

    fn input(&mut self) -> Option<Input> {
        let stdin = self.text(Key::InputStdin);
        let args = self.words(Key::InputArgs);
        if stdin.is_none() && args.is_none() {
            return None;
        }
        let stdin = match stdin {
            None => InputStdin::None,
            Some(spot) if spot.value == "none" => InputStdin::None,
            Some(spot) => match spot.value.strip_prefix("json:") {
                Some(name) if !name.trim().is_empty() => InputStdin::Json(name.to_owned()),
                _ => {
                    self.problems.add(
                        spot.at,
                        format!(
                            "`input.stdin` must be `none` or `json:NAME`, not {}",
                            quoted(&spot.value)
                        ),
                    );
                    InputStdin::None
                }
            },
        };
        Some(Input {
            stdin,
            args: args.map(|args| plain(args.value)).unwrap_or_default(),
        })
    }

    fn choice<T>(&mut self, key: Key, names: &[&str], parse: fn(&str) -> Option<T>) -> Option<T> {
        let written = self.text(key)?;
        let found = parse(&written.value);
        if found.is_none() {
            let name = self.name(key);
            not_one_of(written.at, &name, &written.value, names, self.problems);
        }
        found
    }

    fn yes_or_no(&mut self, key: Key) -> Option<bool> {
        self.choice(key, &["yes", "no"], |text| match text {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        })
    }

    /// The enum; `None` where it is missing or cannot be told, so that nothing is checked against it.
    fn codes(&mut self) -> Option<BTreeMap<u8, String>> {
        let (at, written) = match self.values.get(&Key::VerdictEnum) {
            Some(Spot {
                at,
                value: Value::Codes(codes),
            }) => (*at, codes.clone()),
            _ => return None,
        };
        let name = self.name(Key::VerdictEnum);
        if written.is_empty() {
            self.problems.add(at, format!("{name} is empty"));
            return None;
        }
        let mut codes: BTreeMap<u8, String> = BTreeMap::new();
        let mut code_places: BTreeMap<u8, Pos> = BTreeMap::new();
        let mut name_places: BTreeMap<String, Pos> = BTreeMap::new();
        let mut told = true;
        for Code {
            code,
            name: verdict,
        } in written
        {
            if let Some(verdict) = &verdict {
                told &= self.verdict_name(verdict);
                if let Some(first) = name_places.get(&verdict.value) {
                    let shown = quoted(&verdict.value);
                    self.problems.add(
                        verdict.at,
                        format!("verdict {shown} twice, first at {first}"),
                    );
                    told = false;
                } else {
                    name_places.insert(verdict.value.clone(), verdict.at);
                }
            } else {
                told = false;
            }
            let Some(number) = self.code(&code) else {
                told = false;
                continue;
            };
            if let Some(first) = code_places.get(&number) {
                self.problems
                    .add(code.at, format!("code {number} twice, first at {first}"));
                told = false;
            } else {
                code_places.insert(number, code.at);
                if let Some(verdict) = verdict {
                    codes.insert(number, verdict.value);
                }
            }
        }
        told.then_some(codes)
    }

    fn code(&mut self, code: &Spot<String>) -> Option<u8> {
        let number = code
            .value
            .parse::<u8>()
            .ok()
            .filter(|number| *number <= MAX_CODE);
        // `parse` also takes `+1` and `01`, of which nobody can say what they were meant to be.
        let number = number.filter(|number| number.to_string() == code.value);
        if number.is_none() {
            self.problems.help(
                code.at,
                format!("an exit code must be a number from 0 to {MAX_CODE}, not {}", quoted(&code.value)),
                "shells and signals use those above; write it in decimal, without sign or leading zeros",
            );
        }
        number
    }

    /// Whether a verdict's name could ever be met on a channel.
    fn verdict_name(&mut self, name: &Spot<String>) -> bool {
        let text = &name.value;
        let fits = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
        if !fits {
            self.problems.add(
                name.at,
                format!(
                    "a verdict's name must be one line without blanks around it, not {}",
                    quoted(text)
                ),
            );
        }
        fits
    }

    fn stdout_key(&mut self) -> Option<String> {
        let key = self.text(Key::VerdictStdoutKey)?;
        let text = &key.value;
        let fits = !text.is_empty()
            && text.trim() == text
            && !text.contains(|c: char| c == '=' || c == ':' || c.is_control());
        if !fits {
            let name = self.name(Key::VerdictStdoutKey);
            self.problems.help(
                key.at,
                format!("{name} cannot be {}", quoted(text)),
                "it is what stands before `=` or `:` on the line, without blanks around it",
            );
            return None;
        }
        Some(key.value)
    }

    fn constraints(&mut self, codes: Option<&BTreeMap<u8, String>>) -> Constraints {
        let mut axis_values = Constraints::default();
        for axis in Axis::ALL {
            let values = axis.values();
            match axis {
                Axis::Approval => {
                    axis_values.approval = self.choice(Key::Approval, values, Approval::parse);
                }
                Axis::Reversibility => {
                    axis_values.reversibility =
                        self.choice(Key::Reversibility, values, Reversibility::parse);
                }
                Axis::Residency => {
                    axis_values.residency = self.choice(Key::Residency, values, Residency::parse);
                }
                Axis::Degrade => {
                    axis_values.degrade = self.choice(Key::Degrade, values, Degrade::parse);
                }
                Axis::TierFloor => {
                    axis_values.tier_floor = self.choice(Key::TierFloor, values, TierFloor::parse);
                }
                Axis::Writes => {
                    axis_values.writes = self.choice(Key::Writes, values, Writes::parse);
                }
                Axis::Judge => {
                    axis_values.judge = self.choice(Key::Judge, values, Judge::parse);
                }
                Axis::VerdictBinding => {
                    axis_values.verdict_binding = self.verdict_binding(codes);
                }
            }
        }
        axis_values
    }

    fn verdict_binding(
        &mut self,
        codes: Option<&BTreeMap<u8, String>>,
    ) -> Option<BTreeSet<String>> {
        let written = self.words(Key::VerdictBinding)?.value;
        if let Some(codes) = codes {
            for word in &written {
                let Some(value) = word.value.clone() else {
                    continue;
                };
                // A code or line outside the enum is a HARNESS_ERROR, declared or not.
                if NameClass::of(&value) != NameClass::HarnessError {
                    self.declared(&Spot { at: word.at, value }, Key::VerdictBinding, codes);
                }
            }
        }
        Some(plain(written).into_iter().collect())
    }

    /// Whether the enum has the name; otherwise it is reported.
    fn declared(&mut self, verdict: &Spot<String>, key: Key, codes: &BTreeMap<u8, String>) -> bool {
        let names: Vec<&str> = codes.values().map(String::as_str).collect();
        if names.contains(&verdict.value.as_str()) {
            return true;
        }
        let name = self.name(key);
        let by_code = verdict
            .value
            .parse::<u8>()
            .ok()
            .and_then(|code| codes.get(&code));
        let help = match (by_code, nearest(&verdict.value, &names)) {
            (Some(meant), _) => format!("name the verdict and not its code: `{meant}`"),
            (None, _) if key == Key::VerdictBinding && verdict.value == "NONE" => {
                "an empty set is written `[]`".to_owned()
            }
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => format!("declared: {}", one_of(&names).replace(" or ", ", ")),
        };
        self.problems.help(
            verdict.at,
            format!(
                "{name} names {}, which is not declared",
                quoted(&verdict.value)
            ),
            help,
        );
        false
    }

    fn arm(
        &mut self,
        args: Key,
        stdin: Key,
        expect: Key,
        codes: Option<&BTreeMap<u8, String>>,
    ) -> Option<ArmSpec> {
        let args = self
            .words(args)
            .map(|args| plain(args.value))
            .unwrap_or_default();
        let stdin = self.stdin_file(stdin);
        let name = self.name(expect);
        let key = expect;
        let expect = self.text(key)?;
        let known = codes.is_none_or(|codes| self.declared(&expect, key, codes));
        let class = NameClass::of(&expect.value);
        if known && !class.may_be_expected() {
            let why = if class == NameClass::HarnessError {
                "that the capability itself failed"
            } else {
                "that nothing ran"
            };
            self.problems.help(
                expect.at,
                format!(
                    "{name} cannot be {}, which says {why}",
                    quoted(&expect.value)
                ),
                "an arm must land on a verdict that shows that something was judged",
            );
            return None;
        }
        known.then_some(ArmSpec {
            args,
            stdin,
            expect: expect.value,
        })
    }

    fn stdin_file(&mut self, key: Key) -> Option<String> {
        let file = self.text(key)?;
        let mut inside = !file.value.is_empty();
        let mut names = false;
        for component in Path::new(&file.value).components() {
            match component {
                Component::Normal(_) => names = true,
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => inside = false,
            }
        }
        if !(inside && names) {
            let name = self.name(key);
            self.problems.help(
                file.at,
                format!(
                    "{name} must name a file inside the repo, not {}",
                    quoted(&file.value)
                ),
                "relative to the repo's top, without `..`",
            );
            return None;
        }
        Some(file.value)
    }

    fn registered(&mut self) -> Option<String> {
        let day = self.text(Key::Registered)?;
        if !is_date(&day.value) {
            self.problems.add(
                day.at,
                format!(
                    "`registered` must be a day like `2026-08-02`, not {}",
                    quoted(&day.value)
                ),
            );
            return None;
        }
        Some(day.value)
    }

    fn properties(&mut self) -> BTreeMap<String, Property> {
        match self.values.remove(&Key::Properties) {
            Some(Spot {
                value: Value::Properties(properties),
                ..
            }) => properties,
            _ => BTreeMap::new(),
        }
    }
}

/// The words that could be read; where one could not, a problem keeps the rest from being used.
fn plain(words: Vec<Word>) -> Vec<String> {
    words.into_iter().filter_map(|word| word.value).collect()
}

/// A day of the Gregorian calendar as `YYYY-MM-DD`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let number = |text: &str, width: usize| -> Option<u32> {
        let digits = text.len() == width && text.bytes().all(|b| b.is_ascii_digit());
        if digits { text.parse().ok() } else { None }
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::is_date;

    #[test]
    fn days_are_of_the_calendar() {
        for day in ["2026-08-02", "2024-02-29", "2000-02-29", "2026-12-31"] {
            assert!(is_date(day), "{day}");
        }
        for day in [
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-04-31",
            "2026-8-2",
            "26-08-02",
            "2026-08-02T",
            "",
            "2026/08/02",
        ] {
            assert!(!is_date(day), "{day}");
        }
    }
}
