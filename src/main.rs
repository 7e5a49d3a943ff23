//! Entry point: calls the command line and returns its exit code.

fn main() -> std::process::ExitCode {
    calibrun::cli::main()
}
