//! The subjects: small programs of one odd behaviour each, played by this binary inside the sandbox.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::{
    doors, ending, files, launching, network, operations, processes, races, records, views,
};

/// First argument of a subject; the second is its name.
pub(crate) const ROLE: &str = "__subject";

/// Plays subject `name`. Subjects print what they found, one line `word answer` each.
pub(crate) fn play(name: &str, args: &[OsString]) -> ExitCode {
    let path = |n: usize| Path::new(args.get(n).expect("the subject's argument"));
    let number = |n: usize| -> i32 {
        let text = args.get(n).and_then(|a| a.to_str());
        text.and_then(|t| t.parse().ok()).expect("a number")
    };
    let result: io::Result<()> = match name {
        "operations" => {
            operations::perform_all(path(0));
            Ok(())
        }
        "operations-in-tmpdir" => {
            let top = std::env::temp_dir().join("ops");
            operations::furnish(&top);
            operations::perform_all(&top);
            Ok(())
        }
        "read-all" => operations::read_all(path(0)),
        "write-through-read-only" => operations::write_through_read_only(path(0)),
        "descriptors" => launching::try_descriptors(),
        "daemon" => ending::leave_a_daemon(path(0), number(1)),
        "stop-itself" => ending::stop_itself(),
        "rename" => std::fs::rename(path(0), path(1)),
        "create" => std::fs::File::create_new(path(0)).map(drop),
        "names" => records::make_odd_names(path(0)),
        "nameless" => views::name_a_nameless_file(path(0)),
        "memory-file" => files::use_a_memory_file(),
        "many" => records::make_many(number(0)),
        "deep-folder" => records::go_deep(),
        "long-paths" => records::make_long_paths(),
        "pointers" => doors::pass_bad_pointers(),
        "doors" => doors::try_doors(path(0)),
        "filters" => doors::stack_filters(path(0)),
        "undumpable" => doors::hide_memory(path(0)),
        "untraced" => doors::write_from_an_untraced_child(path(0)),
        "identity-maps" => doors::write_identity_maps(),
        "own-memory" => doors::write_own_memory(),
        "ia32" => doors::change_a_mode_by_ia32(path(0)),
        "ia32-getpid" => doors::ask_by_ia32(),
        "terminals" => doors::push_into_terminals(args.first().map(Path::new)),
        "touch-process" => processes::touch_process(number(0)),
        "own-processes" => processes::touch_own_processes(),
        "look-into" => processes::look_into(number(0)),
        "ipc-objects" => processes::use_ipc_objects(),
        "sockets" => network::reach_out(path(0)),
        "own-sockets" => network::use_own_sockets(),
        "addresses" => network::send_to_addresses(),
        "socket-families" => network::open_families(),
        "connect" => {
            let address = format!("127.0.0.1:{}", number(0));
            say("connect", std::net::TcpStream::connect(address));
            Ok(())
        }
        "probe" => network::probe_an_address(number(0) != 0),
        "swap-open" => races::swap_while_opening(path(0), path(1), number(2)),
        "swap-mode" => races::swap_while_changing_modes(path(0), path(1), number(2)),
        "storm" => races::write_in_a_storm(path(0), number(1)),
        other => panic!("no subject is named {other}"),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{name}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Prints `word done` or `word ERRNO: …`.
pub(crate) fn say<T>(word: &str, result: io::Result<T>) {
    match result {
        Ok(_) => println!("{word} done"),
        Err(e) => {
            let errno = nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0));
            println!("{word} {errno}");
        }
    }
}
