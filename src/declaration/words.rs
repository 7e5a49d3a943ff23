//! Splits a line into arguments as a shell splits words, and refuses what a shell would act on.
//!
//! A declaration's argv never meets a shell. A line that asks for one (a pipe, an expansion, a
//! redirection) would silently mean something else, so it is an error at the character that asks.

use super::problem::{Pos, Problems, quoted};

/// Characters that mean something to a shell when they are not quoted.
const ACTIVE: &[char] = &[
    '|', ';', '&', '<', '>', '(', ')', '$', '~', '*', '?', '[', '#', '`',
];

/// The words of `line`, which begins at `at`; `None` after a problem.
pub(super) fn split(line: &str, at: Pos, problems: &mut Problems) -> Option<Vec<String>> {
    let mut clean = true;
    if let Some(name) = assignment(line) {
        problems.help(
            at,
            format!("{} would set a variable in a shell", quoted(name)),
            "no shell is run: write `env NAME=value program …`, or put it between quotes",
        );
        clean = false;
    }
    clean &= refuse_active(line, at, problems);
    if !clean {
        return None;
    }
    match shell_words::split(line) {
        Ok(words) => Some(words),
        Err(error) => {
            // Open quotes were found above already; what else it refuses is reported all the same.
            problems.add(at, format!("cannot be split into words: {error}"));
            None
        }
    }
}

/// A leading unquoted `NAME=`.
fn assignment(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let bare = name.strip_suffix('+').unwrap_or(name);
    let mut chars = bare.chars();
    let first = chars.next()?;
    let is_name = (first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| &line[..=name.len()])
}

/// Whether no active character is unquoted; neighbours are reported as one.
fn refuse_active(line: &str, at: Pos, problems: &mut Problems) -> bool {
    let chars: Vec<char> = line.chars().collect();
    let mut clean = true;
    let mut open: Option<(char, usize)> = None;
    let mut index = 0;
    while index < chars.len() {
        let c = chars[index];
        match open {
            Some(('\'', _)) => {
                if c == '\'' {
                    open = None;
                }
            }
            Some(_) => match c {
                '"' => open = None,
                '\\' => index += 1,
                _ => {}
            },
            None => match c {
                '\'' | '"' => open = Some((c, index)),
                '\\' if index + 1 == chars.len() => {
                    problems.add(at.right(index), "a backslash with nothing after it");
                    clean = false;
                }
                '\\' => index += 1,
                c if ACTIVE.contains(&c) => {
                    let run: String = chars[index..]
                        .iter()
                        .take_while(|c| ACTIVE.contains(c))
                        .collect();
                    problems.help(
                        at.right(index),
                        format!("unquoted {} means something to a shell", spelled(&run)),
                        help_for(c),
                    );
                    clean = false;
                    index += run.chars().count() - 1;
                }
                _ => {}
            },
        }
        index += 1;
    }
    if let Some((quote, opened)) = open {
        problems.add(at.right(opened), format!("the quote {quote} is not closed"));
        clean = false;
    }
    clean
}

/// A run of characters for a message; a backtick cannot stand between backticks.
fn spelled(run: &str) -> String {
    if run.contains('`') {
        format!("\"{run}\"")
    } else {
        format!("`{run}`")
    }
}

fn help_for(c: char) -> &'static str {
    match c {
        '$' | '`' => {
            "no shell is run and nothing is expanded: write the value, or put it between single quotes"
        }
        '~' | '*' | '?' | '[' => {
            "no shell is run and nothing is expanded: write the names out, or put it between quotes"
        }
        '#' => {
            "a comment stands on a line of its own; put the character between quotes if it is meant"
        }
        _ => {
            "no shell is run: put the line into a script, or the character between quotes if it is meant"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn run(line: &str) -> Result<Vec<String>, Vec<String>> {
        let mut problems = Problems::new(Path::new("a.cap"));
        let words = split(line, Pos { line: 1, column: 8 }, &mut problems);
        match problems.into_result(()) {
            Ok(()) => Ok(words.expect("words without problems")),
            Err(list) => {
                assert_eq!(words, None);
                Err(list
                    .iter()
                    .map(|p| format!("{} {}", p.column, p.message))
                    .collect())
            }
        }
    }

    #[test]
    fn quotes_and_backslashes_make_words() {
        let words = |list: &[&str]| Ok(list.iter().map(|w| (*w).to_owned()).collect());
        assert_eq!(
            run("bash  scripts/a.sh\t--x"),
            words(&["bash", "scripts/a.sh", "--x"])
        );
        assert_eq!(
            run(r#"sh -c 'a | b; $c' "d $e *" ''"#),
            words(&["sh", "-c", "a | b; $c", "d $e *", ""])
        );
        assert_eq!(run(r"a\ b \$c \#d"), words(&["a b", "$c", "#d"]));
        assert_eq!(run(r#""a\"b" 'c"d'"#), words(&["a\"b", "c\"d"]));
        assert_eq!(
            run("cmd {a,b} x]y !z %1"),
            words(&["cmd", "{a,b}", "x]y", "!z", "%1"])
        );
        assert_eq!(run("'CC'=x make"), words(&["CC=x", "make"]));
        assert_eq!(run("make CC=x"), words(&["make", "CC=x"]));
        assert_eq!(run(""), words(&[]));
    }

    #[test]
    fn each_active_character_is_refused_at_its_column() {
        for c in ACTIVE {
            let seen = run(&format!("ab {c} d")).expect_err("refused");
            assert_eq!(seen.len(), 1, "{c}");
            assert!(seen[0].starts_with("11 unquoted "), "{c}: {}", seen[0]);
            run(&format!("ab '{c}' d")).expect("quoted is literal");
            run(&format!("ab \\{c} d")).expect("escaped is literal");
        }
    }

    #[test]
    fn all_offenders_are_reported_and_neighbours_as_one() {
        assert_eq!(
            run("A=1 x && $(y)"),
            Err(vec![
                "8 `A=` would set a variable in a shell".to_owned(),
                "14 unquoted `&&` means something to a shell".to_owned(),
                "17 unquoted `$(` means something to a shell".to_owned(),
                "20 unquoted `)` means something to a shell".to_owned(),
            ])
        );
        assert_eq!(
            run("é |"),
            Err(vec![
                "10 unquoted `|` means something to a shell".to_owned()
            ])
        );
    }

    #[test]
    fn what_is_left_open_is_refused_where_it_opens() {
        assert_eq!(
            run("a 'b"),
            Err(vec!["10 the quote ' is not closed".to_owned()])
        );
        assert_eq!(
            run("a \"b\\\""),
            Err(vec!["10 the quote \" is not closed".to_owned()])
        );
        assert_eq!(
            run("a \\"),
            Err(vec!["10 a backslash with nothing after it".to_owned()])
        );
    }
}
