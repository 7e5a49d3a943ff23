//! The seccomp program, built from the table of calls.
//!
//! ```text
//! other architecture ---------------------------> ask
//! openat, open: their test, before all others --> ask or allow
//! number, by a tree of ranges: no row ----------> ask (x32 numbers and -1 among them)
//!                              harmless --------> allow
//!                              always trapped --> ask
//!                              trapped when ----> its tests -> ask or allow
//! ```
//!
//! The kernel keeps a map of the numbers that a filter allows without looking at an argument, and runs no
//! filter for them; the tree keeps to the instructions that it understands for that (Linux 5.11,
//! `seccomp_is_const_allow`). So only calls with tests and calls that are asked about cost anything.

use libc::sock_filter;

use crate::calls::{Arch, CALLS, Call, LAST, Test, Trap, Value, find_on};

/// One instruction of classic BPF.
pub type SockFilter = sock_filter;

/// Lets the call pass (`SECCOMP_RET_ALLOW`).
pub const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// Asks the supervisor (`SECCOMP_RET_USER_NOTIF`).
pub const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// Where the number lies in `struct seccomp_data`.
const NUMBER: u32 = 0;
/// Where the architecture lies.
const ARCHITECTURE: u32 = 4;
/// Where the arguments begin, of 8 bytes each.
const ARGUMENTS: u32 = 16;

/// Asked about first: among the calls that programs make most, these alone need a test.
const FIRST: [&str; 2] = ["openat", "open"];

/// The filter for `arch`, at most `BPF_MAXINSNS` (4096) instructions long.
///
/// # Panics
///
/// When a row of the table has a test so long that a jump of 255 instructions does not pass it.
pub fn program(arch: Arch) -> Vec<SockFilter> {
    build(arch, &|_| false)
}

/// The filter for `arch` with some calls let through unseen, to show that their detection matters.
///
/// # Panics
///
/// As [`program`], and when a name is not in the table.
#[cfg(feature = "test-switches")]
pub fn program_without(arch: Arch, names: &[&str]) -> Vec<SockFilter> {
    for name in names {
        assert!(
            CALLS.iter().any(|call| call.name == *name),
            "no call is named {name}"
        );
    }
    build(arch, &|call| names.contains(&call.name))
}

/// What is decided about one number.
#[derive(Clone, Copy)]
enum Decision {
    Allow,
    Ask,
    Test(&'static [&'static [Test]]),
}

impl Decision {
    /// Whether neighbours with these decisions share a range.
    fn joins(self, other: Decision) -> bool {
        match (self, other) {
            (Decision::Allow, Decision::Allow) | (Decision::Ask, Decision::Ask) => true,
            (Decision::Allow | Decision::Ask | Decision::Test(_), _) => false,
        }
    }

    fn code(self) -> Vec<SockFilter> {
        match self {
            Decision::Allow => vec![ret(ALLOW)],
            Decision::Ask => vec![ret(ASK)],
            Decision::Test(groups) => {
                let mut code: Vec<SockFilter> =
                    groups.iter().flat_map(|tests| group(tests)).collect();
                code.push(ret(ALLOW));
                code
            }
        }
    }
}

fn build(arch: Arch, left_out: &dyn Fn(&Call) -> bool) -> Vec<SockFilter> {
    let decide = |call: Option<&'static Call>| match call {
        None => Decision::Ask,
        Some(call) if left_out(call) => Decision::Allow,
        Some(call) => match call.trap {
            Trap::Never => Decision::Allow,
            Trap::Always => Decision::Ask,
            Trap::When(groups) => Decision::Test(groups),
        },
    };

    let mut program = vec![
        load(ARCHITECTURE),
        equal(arch.audit(), 1, 0),
        ret(ASK),
        load(NUMBER),
    ];
    for call in FIRST
        .iter()
        .flat_map(|name| CALLS.iter().find(|call| call.name == *name))
    {
        if let Some(number) = call.number(arch) {
            let code = decide(Some(call)).code();
            program.push(equal(number, 0, distance(code.len())));
            program.extend(code);
        }
    }

    let mut ranges: Vec<(u32, Decision)> = Vec::new();
    for number in 0..=LAST + 1 {
        let decision = decide(find_on(arch, number));
        if !ranges.last().is_some_and(|(_, last)| last.joins(decision)) {
            ranges.push((number, decision));
        }
    }
    program.extend(tree(&ranges));
    program
}

/// Code that expects the number in the accumulator and returns what the range that holds it says. The
/// last range has no end. All jumps are relative and forward, so pieces can be put together as they are.
fn tree(ranges: &[(u32, Decision)]) -> Vec<SockFilter> {
    if let [(_, decision)] = ranges {
        return decision.code();
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let (below, above) = (tree(low), tree(high));
    let mut code = match u8::try_from(below.len()) {
        Ok(length) => vec![at_least(high[0].0, length, 0)],
        Err(_) => vec![at_least(high[0].0, 0, 1), jump(below.len())],
    };
    code.extend(below);
    code.extend(above);
    code
}

/// Code that asks when all tests hold, and goes on behind itself when one does not.
fn group(tests: &[Test]) -> Vec<SockFilter> {
    // From the end, since a test jumps over everything behind it.
    let mut code = vec![ret(ASK)];
    for test in tests.iter().rev() {
        let mut longer = condition(test, code.len());
        longer.append(&mut code);
        code = longer;
    }
    code
}

/// Code that goes on behind itself when the test holds, and otherwise skips `skip` instructions more.
fn condition(test: &Test, skip: usize) -> Vec<SockFilter> {
    match *test {
        Test::AnyBit { arg, flags } => {
            let mask = flags.iter().fold(0, |mask, flag| mask | flag.bits);
            vec![load(low_word(arg)), any_bit(mask, 0, distance(skip))]
        }
        Test::NonZero { arg } => vec![load(low_word(arg)), equal(0, distance(skip), 0)],
        Test::NonNull { arg } => vec![
            load(low_word(arg)),
            equal(0, 0, 2),
            load(high_word(arg)),
            equal(0, distance(skip), 0),
        ],
        Test::In { arg, mask, values } => {
            let mut code = masked(arg, mask);
            code.extend(any_of(values, 1));
            code.push(jump(skip));
            code
        }
        Test::NotIn { arg, mask, values } => {
            let mut code = masked(arg, mask);
            code.extend(any_of(values, skip));
            code
        }
    }
}

fn masked(arg: u8, mask: u32) -> Vec<SockFilter> {
    match mask {
        u32::MAX => vec![load(low_word(arg))],
        _ => vec![load(low_word(arg)), and(mask)],
    }
}

/// Comparisons with each value: an equal one goes on `found` instructions behind the last, none at the last.
fn any_of(values: &[Value], found: usize) -> Vec<SockFilter> {
    let behind = |index: usize| values.len() - 1 - index;
    values
        .iter()
        .enumerate()
        .map(|(index, value)| equal(value.bits, distance(behind(index) + found), 0))
        .collect()
}

/// The low word of an argument; both architectures are little-endian.
fn low_word(arg: u8) -> u32 {
    ARGUMENTS + 8 * u32::from(arg)
}

fn high_word(arg: u8) -> u32 {
    low_word(arg) + 4
}

fn distance(instructions: usize) -> u8 {
    u8::try_from(instructions).expect("a test is longer than a jump can pass")
}

fn load(offset: u32) -> SockFilter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

fn and(mask: u32) -> SockFilter {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask)
}

fn equal(value: u32, yes: u8, no: u8) -> SockFilter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value)
}

fn at_least(value: u32, yes: u8, no: u8) -> SockFilter {
    instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, yes, no, value)
}

fn any_bit(mask: u32, yes: u8, no: u8) -> SockFilter {
    instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, yes, no, mask)
}

fn jump(instructions: usize) -> SockFilter {
    let by = u32::try_from(instructions).expect("a program has at most 4096 instructions");
    instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, by)
}

fn ret(action: u32) -> SockFilter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> SockFilter {
    let code = u16::try_from(code).expect("operation codes have 16 bits");
    SockFilter { code, jt, jf, k }
}

#[cfg(test)]
mod tests;
