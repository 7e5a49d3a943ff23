//! Arguments that several commands share.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use calibrun_sandbox::Limits;
use clap::{Args, ValueEnum};

use crate::contract::{Reversibility, Writes};
use crate::verdict::Claims;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For a person
    Human,
    /// One versioned JSON document
    Json,
}

/// How arms are run and reported.
#[derive(Clone, Debug, Args)]
pub(super) struct Running {
    /// How results are written
    #[arg(long, value_enum, default_value_t = Format::Human, value_name = "FORMAT")]
    pub format: Format,
    /// How long an arm may run before it is ended: 500ms, 20s, 2m
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "TIME")]
    pub timeout: Duration,
    /// How long to wait for processes that an arm leaves behind
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "TIME")]
    pub linger: Duration,
    /// Give arms one more environment variable; without a value, the one that calibrun has
    #[arg(long, value_parser = clap::builder::OsStringValueParser::new(), value_name = "KEY[=VALUE]")]
    pub env: Vec<OsString>,
    /// Count git's optional refresh of its index as a write, too
    #[arg(long)]
    pub strict: bool,
    /// Leave clone and scratch for looking, and say where
    #[arg(long)]
    pub keep: bool,
    /// Work on a repo that another user owns
    #[arg(long)]
    pub trust_owner: bool,
}

impl Running {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            timeout: self.timeout,
            linger: self.linger,
            ..Limits::default()
        }
    }
}

/// Reads a time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| "expected a whole number and a unit, as in 20s".to_owned())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" | "" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err(format!("unknown unit {unit:?}; known are ms, s, m, h")),
    };
    match millis {
        Some(millis) if millis <= 86_400_000 => Ok(Duration::from_millis(millis)),
        _ => Err("more than a day".to_owned()),
    }
}

/// One `--claim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Writes(Writes),
    Reversibility(Reversibility),
}

/// Reads `AXIS=VALUE`.
pub(super) fn claim(text: &str) -> Result<Claim, String> {
    let (axis, value) = text
        .split_once('=')
        .ok_or("expected AXIS=VALUE, as in writes=read-only")?;
    let unknown = |names: Vec<&str>| {
        format!(
            "{axis} has no value {value:?}; its values are {}",
            names.join(", ")
        )
    };
    match axis {
        "writes" => Writes::parse(value)
            .map(Claim::Writes)
            .ok_or_else(|| unknown(Writes::ALL.iter().map(|v| v.name()).collect())),
        "reversibility" => Reversibility::parse(value)
            .map(Claim::Reversibility)
            .ok_or_else(|| unknown(Reversibility::ALL.iter().map(|v| v.name()).collect())),
        _ => Err(format!(
            "{axis:?} is no axis that a run can judge; those are writes and reversibility"
        )),
    }
}

/// Unites claims; one axis twice is an error.
pub(super) fn claims(list: &[Claim]) -> Result<Claims, String> {
    let mut claims = Claims::default();
    for claim in list {
        let taken = match claim {
            Claim::Writes(value) => claims.writes.replace(*value).is_some(),
            Claim::Reversibility(value) => claims.reversibility.replace(*value).is_some(),
        };
        if taken {
            return Err("an axis is claimed twice".to_owned());
        }
    }
    Ok(claims)
}

/// Splits `KEY=VALUE`; `Ok(None)` for the value when there is no `=`.
pub(super) fn variable(text: &OsStr) -> Result<(OsString, Option<OsString>), String> {
    let bytes = text.as_bytes();
    let (key, value) = match bytes.iter().position(|b| *b == b'=') {
        Some(at) => (
            &bytes[..at],
            Some(OsString::from_vec(bytes[at + 1..].to_vec())),
        ),
        None => (bytes, None),
    };
    if key.is_empty() || key.contains(&0) {
        return Err(format!(
            "{text:?} names no variable; expected KEY or KEY=VALUE"
        ));
    }
    Ok((OsString::from_vec(key.to_vec()), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "1.5s", "-1s", "2 s", "2d", "999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn claims_name_an_axis_and_one_of_its_values() {
        assert_eq!(
            claim("writes=read-only"),
            Ok(Claim::Writes(Writes::ReadOnly))
        );
        assert!(claim("writes=nothing").unwrap_err().contains("read-only"));
        assert!(claim("approval=auto").unwrap_err().contains("no axis"));
        assert!(claim("writes").is_err());
        let one = claim("writes=read-only").unwrap();
        assert!(claims(&[one, one]).is_err());
        assert_eq!(claims(&[one]).unwrap().writes, Some(Writes::ReadOnly));
    }

    #[test]
    fn variables_may_have_values_with_equals_signs() {
        assert_eq!(
            variable(OsStr::new("A=b=c")),
            Ok(("A".into(), Some("b=c".into())))
        );
        assert_eq!(variable(OsStr::new("A")), Ok(("A".into(), None)));
        assert_eq!(
            variable(OsStr::new("A=")),
            Ok(("A".into(), Some("".into())))
        );
        assert!(variable(OsStr::new("=x")).is_err());
    }
}
