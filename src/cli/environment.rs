//! What an arm gets of the caller's environment: an allow-list, so that a verdict does not hang on what
//! happens to be set.

use std::ffi::OsString;

use super::arguments::variable;

/// Names that are passed on when they are set.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    // where a user's files are
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    // where toolchains are
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "PYENV_ROOT",
    "NVM_DIR",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "VIRTUAL_ENV",
    "RBENV_ROOT",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "SDKMAN_DIR",
    "VOLTA_HOME",
    "CONDA_PREFIX",
];

/// Prefixes of names that are passed on.
const ALLOWED_PREFIXES: &[&str] = &["LC_"];

/// The environment of an arm: what is allowed of `all`, and what `extra` (`KEY` or `KEY=VALUE`) adds.
pub(super) fn of_arm(
    all: impl Iterator<Item = (OsString, OsString)>,
    extra: &[OsString],
) -> Result<Vec<(OsString, OsString)>, String> {
    let all: Vec<(OsString, OsString)> = all.collect();
    let allowed = |key: &OsString| {
        ALLOWED.iter().any(|name| key == name)
            || ALLOWED_PREFIXES
                .iter()
                .any(|prefix| key.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    let mut chosen: Vec<(OsString, OsString)> = all
        .iter()
        .filter(|(key, _)| allowed(key))
        .cloned()
        .collect();
    for text in extra {
        let (key, value) = variable(text)?;
        let value = match value {
            Some(value) => value,
            None => match all.iter().find(|(name, _)| *name == key) {
                Some((_, value)) => value.clone(),
                None => {
                    return Err(format!(
                        "{key:?} is not set here; give it a value: {}=VALUE",
                        key.to_string_lossy()
                    ));
                }
            },
        };
        chosen.retain(|(name, _)| *name != key);
        chosen.push((key, value));
    }
    chosen.sort();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = (OsString, OsString)> {
        [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("SECRET_TOKEN", "x"),
            ("GIT_DIR", "/g"),
            ("CI", "true"),
        ]
        .into_iter()
        .map(|(k, v)| (k.into(), v.into()))
    }

    #[test]
    fn only_what_is_allowed_or_asked_for_is_passed_on() {
        let plain = of_arm(all(), &[]).unwrap();
        assert_eq!(
            plain,
            [
                ("LC_ALL".into(), "C".into()),
                ("PATH".into(), "/bin".into())
            ]
        );
        let asked = of_arm(all(), &["CI".into(), "PATH=/x".into()]).unwrap();
        assert!(asked.contains(&("CI".into(), "true".into())));
        assert!(asked.contains(&("PATH".into(), "/x".into())));
        assert_eq!(asked.len(), 3);
        assert!(of_arm(all(), &["UNSET".into()]).is_err());
    }
}
