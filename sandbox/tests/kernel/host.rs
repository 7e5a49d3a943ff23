//! What this host gives, and in which conditions a case runs.

use std::process::Command;
use std::sync::Arc;

use calibrun_sandbox::switch::Switches;
use calibrun_sandbox::{Layers, Pass};
use libtest_mimic::{Completion, Failed, Trial};

use crate::stage::{Stage, TEST_ROOT, has_room_outside_temp};

/// First argument of a process that runs one case; its environment switches layers off.
pub(crate) const CASE_ROLE: &str = "__case";

/// Set where everything must run: what would be ignored fails.
const MUST_RUN: &str = "CALIBRUN_MUST_RUN";

/// What a case cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing but Landlock and the listener: it runs without namespaces as well.
    Nothing,
    /// Private mounts.
    Mounts,
    /// A private HOME in the contained pass.
    HomeOverlay,
    /// A private network.
    Net,
    /// A private process tree in the contained pass.
    Pids,
    /// Private mounts, and a folder outside the shared temp folders that tests may write to.
    MountsAndRoom,
    /// A program on the PATH.
    Program(&'static str),
}

/// One test.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) needs: Need,
    pub(crate) run: fn(),
}

/// Declares cases: the function's name is the test's name.
macro_rules! cases {
    ($($needs:expr => $($name:ident)+;)+) => {
        pub(crate) const CASES: &[crate::host::Case] = &[
            $($(crate::host::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                needs: { use crate::host::Need::*; $needs },
                run: $name,
            },)+)+
        ];
    };
}
pub(crate) use cases;

/// A condition in which cases run.
#[derive(Clone, Copy, Debug)]
struct Condition {
    name: &'static str,
    /// What the environment switches off, see `Switches`.
    off: &'static str,
    namespaces: bool,
}

const ALL_LAYERS: Condition = Condition {
    name: "all layers",
    off: "",
    namespaces: true,
};

/// What was found by trying.
pub(crate) struct Host {
    layers: Layers,
    root: bool,
    must_run: bool,
}

impl Host {
    pub(crate) fn look() -> Host {
        let run = Stage::new(Pass::Contained).sh("true");
        Host {
            layers: run.layers,
            root: nix::unistd::Uid::effective().is_root(),
            must_run: std::env::var_os(MUST_RUN).is_some_and(|v| v == "1"),
        }
    }

    fn conditions(&self) -> Vec<Condition> {
        let bare = |off| Condition {
            name: "no namespaces",
            off,
            namespaces: false,
        };
        if self.root {
            vec![
                ALL_LAYERS,
                Condition {
                    name: "no user namespace",
                    off: "user-namespace",
                    namespaces: true,
                },
                bare("mounts,net,pid"),
            ]
        } else {
            vec![ALL_LAYERS, bare("user-namespace,mounts")]
        }
    }

    /// Why this host cannot run a case that needs `need`.
    fn lacks(&self, need: Need) -> Option<String> {
        let missing = || self.layers.missing.join("; ");
        let lacking = match need {
            Need::Nothing => false,
            Need::Mounts => !self.layers.mounts,
            Need::MountsAndRoom if !has_room_outside_temp() => {
                return Some(format!(
                    "every folder for tests lies in a temp folder, see {TEST_ROOT}"
                ));
            }
            Need::MountsAndRoom => !self.layers.mounts,
            Need::HomeOverlay => !self.layers.home_overlay,
            Need::Net => !self.layers.net_namespace,
            Need::Pids => !self.layers.pid_namespace,
            Need::Program(name) if !on_path(name) => return Some(format!("no {name} here")),
            Need::Program(_) => false,
        };
        lacking.then(|| format!("this host gives no {need:?}: {}", missing()))
    }

    /// The case in every condition in which it says something.
    pub(crate) fn trials(&self, case: &'static Case) -> Vec<Trial> {
        let lacks = self.lacks(case.needs).map(Arc::new);
        let applies = |condition: &Condition| {
            condition.namespaces
                || !matches!(
                    case.needs,
                    Need::Mounts | Need::MountsAndRoom | Need::HomeOverlay | Need::Net | Need::Pids
                )
        };
        let short = case.name.trim_start_matches("kernel::");
        let conditions = self.conditions().into_iter().filter(applies);
        conditions
            .map(|condition| {
                let (lacks, must_run) = (lacks.clone(), self.must_run);
                Trial::ignorable_test(
                    format!("{short} [{}]", condition.name),
                    move || match lacks {
                        Some(why) if must_run => Err(Failed::from(why.as_str())),
                        Some(why) => Ok(Completion::ignored_with(why)),
                        None => in_condition(case, condition).map(|()| Completion::Completed),
                    },
                )
            })
            .collect()
    }
}

/// Always in a process of its own: what is switched off is read from the environment, and a case
/// that ends its process ends no other.
fn in_condition(case: &Case, condition: Condition) -> Result<(), Failed> {
    let output = this_program()
        .args([CASE_ROLE, case.name])
        .env(Switches::VARIABLE, condition.off)
        .env("RUST_BACKTRACE", "0")
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

/// This test program, to be executed in a role.
pub(crate) fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("this program has a path"))
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
