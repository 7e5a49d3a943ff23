//! Layers that a test can switch off, to show that something notices.
//!
//! In a build without the feature `test-switches` nothing can be switched off: the set is always empty.

/// A set of layers by name, see [`Switches::is_off`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches(Vec<String>);

impl Switches {
    /// The environment variable that a test sets: names separated by commas.
    pub const VARIABLE: &'static str = "CALIBRUN_TEST_OFF";

    /// Reads the variable; empty in a build without the feature.
    pub(crate) fn from_environment() -> Switches {
        let text = std::env::var(Self::VARIABLE).unwrap_or_default();
        Switches::heeded(cfg!(feature = "test-switches"), &text)
    }

    fn heeded(compiled_in: bool, text: &str) -> Switches {
        if compiled_in {
            Switches::from_text(text)
        } else {
            Switches::default()
        }
    }

    pub(crate) fn from_text(text: &str) -> Switches {
        Switches(
            text.split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }

    pub(crate) fn to_text(&self) -> String {
        self.0.join(",")
    }

    /// Whether `layer` is switched off: `landlock`, `listener`, `user-namespace`, `mounts`,
    /// `temp-overlay`, `net`, `pid`.
    pub fn is_off(&self, layer: &str) -> bool {
        self.0.iter().any(|name| name == layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_the_feature_switches_nothing_off() {
        let all = "landlock,listener,mounts";
        assert_eq!(Switches::heeded(false, all), Switches::default());
        let on = Switches::heeded(true, all);
        assert!(on.is_off("landlock") && on.is_off("listener") && !on.is_off("net"));
    }
}
