//! System calls as a subject makes them: by number, with whatever arguments. The only `unsafe` here.

use std::ffi::CStr;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// One argument of a raw call.
pub(crate) enum Arg<'a> {
    /// A number, or an address that is wrong on purpose.
    N(i64),
    /// A NUL-terminated string.
    S(&'a CStr),
    /// Bytes that the kernel reads.
    R(&'a [u8]),
    /// Bytes that the kernel may write.
    W(&'a mut [u8]),
}

/// Makes call `number`.
pub(crate) fn call(number: i64, args: &mut [Arg<'_>]) -> io::Result<i64> {
    let mut raw = [0i64; 6];
    for (place, arg) in raw.iter_mut().zip(args) {
        *place = match arg {
            Arg::N(n) => *n,
            Arg::S(text) => text.as_ptr() as i64,
            Arg::R(bytes) => bytes.as_ptr() as i64,
            Arg::W(bytes) => bytes.as_mut_ptr() as i64,
        };
    }
    let [a, b, c, d, e, f] = raw;
    // SAFETY: every pointer comes from a borrow that outlives the call, and only `W` is handed to
    // calls that write; wrong addresses are only passed to calls that check them (EFAULT). No subject
    // calls what unmaps or remaps memory of its own.
    let ret = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

/// clone(2) without shared memory; `flags` are added to SIGCHLD. 0 in the child.
pub(crate) fn fork_with(flags: i32) -> i64 {
    // SAFETY: without CLONE_VM the child has memory of its own; subjects that fork have one thread.
    unsafe {
        libc::syscall(
            libc::SYS_clone,
            i64::from(flags | libc::SIGCHLD),
            0,
            0,
            0,
            0,
        )
    }
}

/// Memory that one thread rewrites while the kernel reads it for another.
pub(crate) struct Shared(Box<[AtomicU8]>);

impl Shared {
    pub(crate) fn new(bytes: &[u8]) -> Shared {
        Shared(bytes.iter().map(|b| AtomicU8::new(*b)).collect())
    }

    /// Byte by byte, so that a torn name can be read as well.
    pub(crate) fn store(&self, bytes: &[u8]) {
        for (place, byte) in self.0.iter().zip(bytes) {
            place.store(*byte, Ordering::Relaxed);
        }
    }

    /// For a call that reads: the memory is atomic, so nothing is a data race.
    pub(crate) fn address(&self) -> i64 {
        self.0.as_ptr() as i64
    }
}

/// The address of a page that may not be read.
pub(crate) fn closed_page() -> i64 {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping, placed by the kernel; nothing of ours lies there.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, kind, -1, 0) };
    page as i64
}

/// Lets SIGALRM come every `micros` microseconds, with a handler that does nothing.
pub(crate) fn storm(micros: i64, flags: i32) {
    extern "C" fn nothing(_: i32) {}
    let interval = libc::timeval {
        tv_sec: 0,
        tv_usec: micros,
    };
    let timer = libc::itimerval {
        it_interval: interval,
        it_value: interval,
    };
    // SAFETY: the handler touches nothing; both structures are initialised and outlive the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        action.sa_flags = flags;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// Installs a filter that answers calls of `number` with `action`; `flags` as seccomp(2) takes them.
pub(crate) fn install_filter(number: i64, action: u32, flags: u64) -> io::Result<i64> {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            number as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, action),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let header = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `header` describes `program`; both outlive the call, and the kernel copies them.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const header,
        )
    };
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

/// A 32-bit call from this 64-bit process. `path` is copied below 4 GiB first, as such calls need.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_ia32(number: u32, path: &CStr, second: u32) -> i32 {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping, placed by the kernel; `path` with its NUL fits the page.
    let low = unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0);
        assert!(page != libc::MAP_FAILED && path.count_bytes() < 4096);
        std::ptr::copy_nonoverlapping(
            path.as_ptr().cast::<u8>(),
            page.cast(),
            path.count_bytes() + 1,
        );
        page as u64
    };
    let result: i64;
    // SAFETY: the gate reads eax, ebx and ecx and writes rax alone (and r8 to r11, which are named);
    // rbx, which the compiler reserves, is exchanged and put back.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {low}",
            "int 0x80",
            "xchg rbx, {low}",
            low = inout(reg) low => _,
            inlateout("rax") i64::from(number) => result,
            in("rcx") u64::from(second),
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result as i32
}

/// Whether a child process can make a 32-bit call; where it cannot, the child dies.
pub(crate) fn runs_ia32() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let program = crate::host::this_program()
            .args([crate::subject::ROLE, "ia32-getpid"])
            .output();
        program.is_ok_and(|output| output.status.success())
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
