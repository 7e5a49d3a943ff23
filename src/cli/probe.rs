//! `probe`: declared capabilities.

use std::path::{Path, PathBuf};

use clap::Args;

use super::arguments::Running;
use super::session::{Session, Subject};
use super::terminal::Terminal;
use super::{Failure, chain_of};
use crate::declaration::{self, Cwd, Declaration, ReadError};
use crate::exit::ExitCode;
use crate::plan::Plan;
use crate::report::{DeclarationRef, Failed};
use crate::verdict::{Claims, Expected, Question};
use crate::workspace::FieldRepo;

const EXAMPLES: &str = "\
Examples:
  calibrun probe tools/leak_scan.cap
  calibrun probe --format json . > report.json";

/// Run each declared arm and one without arguments on a clone, and judge the declared claims
///
/// Exit: 0 verified, 1 contradicted, 3 claim-only, 10 error; a batch exits with the gravest.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Probe {
    /// Declarations (.cap, .yaml), or folders to search for them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    running: Running,
}

impl Probe {
    pub(super) fn run(&self, terminal: &Terminal) -> Result<ExitCode, Failure> {
        let mut session = Session::new(&self.running, terminal)?;
        for path in &self.paths {
            let files = match declaration::find(path) {
                Ok(files) => files,
                Err(error) => {
                    self.unread(&mut session, terminal, path, &error);
                    continue;
                }
            };
            if files.is_empty() {
                self.unread(
                    &mut session,
                    terminal,
                    path,
                    &ReadError::NoneFound { path: path.clone() },
                );
            }
            for file in files {
                match declaration::read(&file) {
                    Ok(declarations) => {
                        for declaration in &declarations {
                            self.one(&mut session, terminal, declaration)?;
                        }
                    }
                    Err(error) => self.unread(&mut session, terminal, &file, &error),
                }
            }
        }
        session.finish()
    }

    /// Judges one declaration; a failure of it is an entry of the results, and the batch goes on.
    fn one(
        &self,
        session: &mut Session<'_>,
        terminal: &Terminal,
        declaration: &Declaration,
    ) -> Result<(), Failure> {
        let reference = reference(declaration);
        let result = folder_of(declaration, self.running.trust_owner)
            .and_then(|folder| session.judge(subject(declaration, &folder, self.running.strict)));
        let Err(failure) = result else { return Ok(()) };
        // Nothing more can be run: the user wants to stop, or this host cannot confine anything.
        if session.is_stopped() || failure.code == ExitCode::ClaimOnly {
            return Err(failure);
        }
        let text = failure.chain.join(": ");
        terminal.error(&format!("{}: {text}", declaration.id));
        if let Some(hint) = &failure.hint {
            terminal.note(&format!("hint: {hint}"));
        }
        session.failed(Failed {
            id: Some(declaration.id.clone()),
            declaration: Some(reference),
            error: text,
        });
        Ok(())
    }

    /// Reports a declaration that could not be read, every problem of it.
    fn unread(
        &self,
        session: &mut Session<'_>,
        terminal: &Terminal,
        path: &Path,
        error: &ReadError,
    ) {
        if let ReadError::Invalid(problems) = error {
            for problem in problems {
                terminal.error(&problem.to_string());
            }
            let error = format!("{}: {} problems", path.display(), problems.len());
            session.failed(Failed {
                id: None,
                declaration: None,
                error,
            });
            return;
        }
        let text = chain_of(error).join(": ");
        terminal.error(&text);
        session.failed(Failed {
            id: None,
            declaration: None,
            error: text,
        });
    }
}

/// Where the arms run: the top of the repo that holds the declaration, or the declared folder.
pub(super) fn folder_of(declaration: &Declaration, trust_owner: bool) -> Result<PathBuf, Failure> {
    match &declaration.requires_cwd {
        Cwd::Absolute(folder) => {
            if !folder.is_dir() {
                let text = format!(
                    "requires_cwd names {}, which is no folder here",
                    folder.display()
                );
                return Err(Failure::text(ExitCode::HarnessError, text));
            }
            Ok(folder.clone())
        }
        Cwd::SelfRepo => {
            let file = declaration
                .source
                .path
                .canonicalize()
                .map_err(|e| Failure::harness(&e))?;
            let folder = file.parent().unwrap_or(Path::new("/"));
            let field =
                FieldRepo::discover(folder, trust_owner).map_err(|e| Failure::harness(&e))?;
            Ok(field.top().to_owned())
        }
    }
}

pub(super) fn subject<'a>(
    declaration: &'a Declaration,
    folder: &'a Path,
    strict: bool,
) -> Subject<'a> {
    let constraints = &declaration.constraints;
    let claims = Claims {
        writes: constraints.writes,
        reversibility: constraints.reversibility,
    };
    Subject {
        id: Some(&declaration.id),
        declaration: Some(reference(declaration)),
        folder,
        plan: Plan::of_declaration(declaration),
        question: Question {
            claims,
            expected: Expected::Declared(declaration.verdict.clone()),
            strict,
        },
    }
}

fn reference(declaration: &Declaration) -> DeclarationRef {
    let source = &declaration.source;
    DeclarationRef {
        path: source.path.clone(),
        line: source.line,
        sha256: source.sha256.clone(),
    }
}
