//! Sessions through the built program, as a user has them.
//!
//! `CALIBRUN_BIN` names another build to test; the sessions that switch layers off always use the one
//! that was built for tests. `CALIBRUN_MUST_RUN=1` forbids leaving anything out.

mod cli {
    mod bad_input;
    mod environment;
    mod help;
    mod interruption;
    mod machine_format;
    mod observe;
    mod output;
    mod probe;
    mod snapshot;
    mod switches;
    mod untouched;
}
