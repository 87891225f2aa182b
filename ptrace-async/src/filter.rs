//! Seccomp programs that stop a tracee only where a tool asked for it.
//!
//! A program is a binary search over syscall numbers, because classic BPF has no tables.
//! Its leaves allow, stop (`SECCOMP_RET_TRACE`) or test arguments first. Tests see the low
//! 32 bits of an argument, which hold descriptors, flags and commands. Calls of foreign
//! architectures (32-bit and x32) always stop, so that a program cannot hide behind them.
//!
//! See seccomp(2) and the kernel's `Documentation/userspace-api/seccomp_filter.rst`.

use std::hash::{BuildHasher, Hasher, RandomState};

use libc::sock_filter;

use crate::unstopped::{CODE, PASSING};

/// How an argument test compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `(argument & mask) == value`.
    Equal,
    /// `(argument & mask) != value`.
    NotEqual,
    /// `(argument & mask) >= value`, unsigned.
    AtLeast,
    /// `(argument & mask) < value`, unsigned.
    Below,
}

/// A test of the low 32 bits of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Test {
    /// Which argument (0 to 5).
    pub argument: u8,
    /// Bits that take part.
    pub mask: u32,
    /// The comparison.
    pub compare: Compare,
    /// The value on the right of the comparison.
    pub value: u32,
}

impl Test {
    /// Whether it holds for these arguments.
    pub fn holds(&self, args: &[u64; 6]) -> bool {
        let value = args[usize::from(self.argument)] as u32 & self.mask;
        match self.compare {
            Compare::Equal => value == self.value,
            Compare::NotEqual => value != self.value,
            Compare::AtLeast => value >= self.value,
            Compare::Below => value < self.value,
        }
    }
}

/// A call that fails without being made, where the code that the runtime maps into tracees makes
/// it: a fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The syscall's number.
    pub number: u32,
    /// Which of its calls fail.
    pub test: Test,
    /// The error.
    pub error: u16,
}

/// Whether a syscall stops, and under which conditions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// It runs unobserved.
    Allow,
    /// It stops at entry.
    Trace,
    /// It stops when, in one of the alternatives, all tests hold.
    TraceIf(Vec<Vec<Test>>),
    /// It runs if the code that the runtime maps into tracees makes it and logs it (see
    /// [`crate::runtime::Handle::unstopped_calls`]). Otherwise the inner rule holds.
    UnlessInProcess(Box<Self>),
    /// It runs if its instruction ends in the 4 KiB page at this address. Otherwise the
    /// inner rule holds.
    UnlessFrom(u64, Box<Self>),
    /// It runs if its fourth argument is the [`Filter::token`]. Otherwise the inner rule
    /// holds.
    UnlessStarting(Box<Self>),
    /// It fails as the fault says. Otherwise the inner rule holds.
    Fails(Fault, Box<Self>),
}

impl Rule {
    /// Whether a call stops that none of the exceptions lets pass.
    fn stops(&self, args: &[u64; 6]) -> bool {
        match self {
            Self::Allow => false,
            Self::Trace => true,
            Self::TraceIf(any) => any.iter().any(|tests| tests.iter().all(|t| t.holds(args))),
            Self::UnlessInProcess(rule)
            | Self::UnlessStarting(rule)
            | Self::Fails(_, rule)
            | Self::UnlessFrom(_, rule) => rule.stops(args),
        }
    }

    fn mentions_in_process(&self) -> bool {
        match self {
            Self::UnlessInProcess(_) => true,
            Self::UnlessStarting(rule) | Self::UnlessFrom(_, rule) | Self::Fails(_, rule) => {
                rule.mentions_in_process()
            }
            _ => false,
        }
    }
}

/// A finished program.
#[derive(Clone)]
pub struct Filter {
    program: Vec<sock_filter>,
    ranges: Vec<(u32, Rule)>,
    token: Option<u64>,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({} instructions)", self.program.len())
    }
}

/// `SECCOMP_RET_DATA` of a stop for a foreign architecture.
pub const FOREIGN: u32 = 1;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQ: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_GE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// `AUDIT_ARCH_X86_64` of linux/audit.h.
pub const ARCH_X86_64: u32 = 0xc000_003e;

fn op(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn ret(action: u32) -> sock_filter {
    op(RETURN, action, 0, 0)
}

impl Filter {
    /// Builds the program for syscalls `0..count` with `rule(nr)`; every
    /// number from `count` up stops.
    pub fn build(count: u32, rule: impl Fn(u32) -> Rule) -> Self {
        let mut ranges: Vec<(u32, Rule)> = Vec::new();
        for nr in 0..count {
            let rule = rule(nr);
            if ranges.last().is_none_or(|(_, last)| *last != rule) {
                ranges.push((nr, rule));
            }
        }
        ranges.push((count, Rule::Trace));
        let program = vec![
            op(LOAD, 4, 0, 0),
            op(JUMP_EQ, ARCH_X86_64, 1, 0),
            ret(libc::SECCOMP_RET_TRACE | FOREIGN),
            op(LOAD, 0, 0, 0),
            op(JUMP_GE, 0x4000_0000, 0, 1),
            ret(libc::SECCOMP_RET_TRACE | FOREIGN),
        ];
        let token = RandomState::new().build_hasher().finish();
        let mut emitter = Emitter {
            program,
            token,
            shared: Vec::new(),
        };
        emitter.search(&ranges);
        let program = emitter.finish();
        let logged = ranges.iter().any(|(_, rule)| rule.mentions_in_process());
        Self {
            program,
            ranges,
            token: logged.then_some(token),
        }
    }

    /// Whether a call stops, computed here as the program decides it.
    pub fn stops(&self, arch: u32, nr: u64, args: &[u64; 6]) -> bool {
        if arch != ARCH_X86_64 || nr >= 0x4000_0000 {
            return true;
        }
        let index = self
            .ranges
            .partition_point(|(first, _)| u64::from(*first) <= nr);
        let rule = index.checked_sub(1).map(|index| &self.ranges[index].1);
        rule.is_none_or(|rule| rule.stops(args))
    }

    /// A secret number that lets the calls pass by which a fresh program maps the runtime's
    /// code. `None` when no rule lets calls of that code pass.
    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }

    /// The instructions, for `seccomp(SECCOMP_SET_MODE_FILTER)`.
    pub fn program(&self) -> &[sock_filter] {
        &self.program
    }
}

/// A program under construction. The kernel checks, translates and compiles it for each
/// first process, and interprets it once for each syscall number. Leaves are therefore
/// shared.
struct Emitter<'r> {
    program: Vec<sock_filter>,
    token: u64,
    /// Leaves that several ranges share, and the jumps to them. They are appended at the
    /// end.
    shared: Vec<(&'r Rule, Vec<usize>)>,
}

impl<'r> Emitter<'r> {
    /// A binary search whose accumulator holds the syscall number.
    fn search(&mut self, ranges: &'r [(u32, Rule)]) {
        if let [(_, rule)] = ranges {
            self.leaf(rule);
            return;
        }
        let (left, right) = ranges.split_at(ranges.len() / 2);
        let at = self.program.len();
        self.program.push(op(JUMP_GE, right[0].0, 0, 0));
        self.search(left);
        let skip = self.program.len() - at - 1;
        if let Ok(skip) = u8::try_from(skip) {
            self.program[at].jt = skip;
        } else {
            // Too far for one byte.
            self.program[at] = op(JUMP_GE, right[0].0, 0, 1);
            self.program.insert(at + 1, op(JUMP, skip as u32, 0, 0));
            for (_, jumps) in &mut self.shared {
                for jump in jumps.iter_mut().filter(|jump| **jump > at) {
                    *jump += 1;
                }
            }
        }
        self.search(right);
    }

    fn leaf(&mut self, rule: &'r Rule) {
        if let Rule::Allow | Rule::Trace = rule {
            self.program.extend(leaf(rule, self.token));
            return;
        }
        let at = self.program.len();
        self.program.push(op(JUMP, 0, 0, 0));
        match self.shared.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, jumps)) => jumps.push(at),
            None => self.shared.push((rule, vec![at])),
        }
    }

    fn finish(mut self) -> Vec<sock_filter> {
        for (rule, jumps) in self.shared {
            for jump in jumps {
                self.program[jump].k = (self.program.len() - jump - 1) as u32;
            }
            self.program.extend(leaf(rule, self.token));
        }
        self.program
    }
}

fn leaf(rule: &Rule, token: u64) -> Vec<sock_filter> {
    match rule {
        Rule::Allow => vec![ret(libc::SECCOMP_RET_ALLOW)],
        Rule::Trace => vec![ret(libc::SECCOMP_RET_TRACE)],
        Rule::UnlessInProcess(rule) => {
            let mut code = allow_from(CODE, PASSING as u32);
            code.extend(leaf(rule, token));
            code
        }
        Rule::UnlessFrom(page, rule) => {
            let mut code = allow_from(*page, 4096);
            code.extend(leaf(rule, token));
            code
        }
        Rule::Fails(fault, rule) => {
            let fails = conjunction(
                &[fault.test],
                libc::SECCOMP_RET_ERRNO | u32::from(fault.error),
            );
            let mut code = jump_unless_from(CODE, PASSING as u32, fails.len() as u8);
            code.extend(fails);
            code.extend(leaf(rule, token));
            code
        }
        Rule::UnlessStarting(rule) => {
            let mut code = vec![
                op(LOAD, 16 + 8 * 3, 0, 0),
                op(JUMP_EQ, token as u32, 0, 3),
                op(LOAD, 16 + 8 * 3 + 4, 0, 0),
                op(JUMP_EQ, (token >> 32) as u32, 0, 1),
                ret(libc::SECCOMP_RET_ALLOW),
            ];
            code.extend(leaf(rule, token));
            code
        }
        Rule::TraceIf(alternatives) => {
            let mut code = Vec::new();
            for tests in alternatives {
                code.extend(conjunction(tests, libc::SECCOMP_RET_TRACE));
            }
            code.push(ret(libc::SECCOMP_RET_ALLOW));
            code
        }
    }
}

/// Returns ALLOW for calls of code that is aligned to its length, a power of two.
fn allow_from(from: u64, length: u32) -> Vec<sock_filter> {
    let mut code = jump_unless_from(from, length, 1);
    code.push(ret(libc::SECCOMP_RET_ALLOW));
    code
}

/// Skips the next `count` instructions for calls of other code.
fn jump_unless_from(from: u64, length: u32, count: u8) -> Vec<sock_filter> {
    let within = !(length - 1);
    vec![
        op(LOAD, 12, 0, 0),
        op(JUMP_EQ, (from >> 32) as u32, 0, 3 + count),
        op(LOAD, 8, 0, 0),
        op(AND, within, 0, 0),
        op(JUMP_EQ, from as u32 & within, 0, count),
    ]
}

/// Returns `action` when all tests hold, falls through otherwise.
fn conjunction(tests: &[Test], action: u32) -> Vec<sock_filter> {
    let mut code = Vec::new();
    for (index, test) in tests.iter().enumerate() {
        // Each test is LOAD, AND, JUMP: after a failed one, what remains of
        // this conjunction (3 instructions a test and the return) is skipped.
        let skip = ((tests.len() - index - 1) * 3 + 1) as u8;
        code.push(op(LOAD, 16 + 8 * u32::from(test.argument), 0, 0));
        code.push(op(AND, test.mask, 0, 0));
        code.push(match test.compare {
            Compare::Equal => op(JUMP_EQ, test.value, 0, skip),
            Compare::NotEqual => op(JUMP_EQ, test.value, skip, 0),
            Compare::AtLeast => op(JUMP_GE, test.value, 0, skip),
            Compare::Below => op(JUMP_GE, test.value, skip, 0),
        });
    }
    code.push(ret(action));
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{watch, watching, watching_with};
    use crate::runtime::performed_at;
    use crate::unstopped::{NEEDED, PERFORMED};

    /// Interprets a program as the kernel would.
    fn run(filter: &Filter, arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        run_at(filter, arch, nr, args, 0x40_1000)
    }

    fn run_at(filter: &Filter, arch: u32, nr: u32, args: [u64; 6], ip: u64) -> u32 {
        let mut data = [0_u8; 64];
        data[8..16].copy_from_slice(&ip.to_le_bytes());
        data[0..4].copy_from_slice(&nr.to_le_bytes());
        data[4..8].copy_from_slice(&arch.to_le_bytes());
        for (i, arg) in args.iter().enumerate() {
            data[16 + 8 * i..24 + 8 * i].copy_from_slice(&arg.to_le_bytes());
        }
        let (mut pc, mut acc) = (0, 0_u32);
        loop {
            let insn = filter.program[pc];
            pc += 1;
            match insn.code {
                LOAD => {
                    let at = insn.k as usize;
                    acc = u32::from_le_bytes(data[at..at + 4].try_into().expect("4 bytes"));
                }
                AND => acc &= insn.k,
                JUMP => pc += insn.k as usize,
                JUMP_EQ => pc += usize::from(if acc == insn.k { insn.jt } else { insn.jf }),
                JUMP_GE => pc += usize::from(if acc >= insn.k { insn.jt } else { insn.jf }),
                RETURN => return insn.k,
                other => panic!("unknown code {other:#x}"),
            }
        }
    }

    fn rules(nr: u32) -> Rule {
        let fd = |compare, value| Test {
            argument: 0,
            mask: u32::MAX,
            compare,
            value,
        };
        match nr {
            0 => Rule::TraceIf(vec![
                vec![fd(Compare::Below, 3)],
                vec![fd(Compare::AtLeast, 6)],
            ]),
            9 => Rule::TraceIf(vec![vec![
                Test {
                    argument: 2,
                    mask: 2,
                    compare: Compare::Equal,
                    value: 2,
                },
                Test {
                    argument: 3,
                    mask: 3,
                    compare: Compare::NotEqual,
                    value: 2,
                },
            ]]),
            n if n % 3 == 0 => Rule::Trace,
            _ => Rule::Allow,
        }
    }

    #[test]
    fn every_number_gets_its_own_rule() {
        let filter = Filter::build(400, rules);
        for nr in 0..400 {
            for args in [
                [0; 6],
                [4, 0, 2, 1, 0, 0],
                [7, 0, 2, 2, 0, 0],
                [u64::MAX; 6],
            ] {
                let traced = filter.stops(ARCH_X86_64, u64::from(nr), &args);
                let expected = if traced {
                    libc::SECCOMP_RET_TRACE
                } else {
                    libc::SECCOMP_RET_ALLOW
                };
                assert_eq!(
                    run(&filter, ARCH_X86_64, nr, args),
                    expected,
                    "{nr} {args:?}"
                );
            }
        }
    }

    #[test]
    fn the_program_stops_what_the_process_model_watches() {
        let filter = watching();
        let words = [0, 1, 2, 3, 5, 6, 9, u64::MAX, libc::F_SETFD as u64, 0x5401];
        for nr in 0..512 {
            let watch = watch(u64::from(nr));
            for first in words {
                for second in words {
                    for third in words {
                        let args = [first, second, third, second, third, first];
                        let expected = if watch.stops(&args) {
                            libc::SECCOMP_RET_TRACE
                        } else {
                            libc::SECCOMP_RET_ALLOW
                        };
                        assert_eq!(
                            run(&filter, ARCH_X86_64, nr, args),
                            expected,
                            "{nr} {args:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn logged_calls_pass_only_from_the_code() {
        let (filter, from) = (watching(), performed_at());
        let page = from & !0xfff;
        for nr in 0..512 {
            let number = i64::from(nr);
            let passes_there = PERFORMED.contains(&number) || NEEDED.contains(&number);
            let args = [0, 0, 2, 1, 0, 0];
            let usual = run(&filter, ARCH_X86_64, nr, args);
            for ip in [
                0,
                page - 1,
                page + 4096,
                from ^ 1 << 32,
                from & 0xffff_ffff,
                from << 32,
            ] {
                assert_eq!(run_at(&filter, ARCH_X86_64, nr, args, ip), usual, "{ip:x}");
            }
            let stops = usual != libc::SECCOMP_RET_ALLOW;
            let there = run_at(&filter, ARCH_X86_64, nr, args, from);
            let passes = there == libc::SECCOMP_RET_ALLOW;
            assert_eq!(passes, passes_there || !stops, "{nr}");
        }
    }

    #[test]
    fn calls_with_the_token_pass() {
        let filter = watching();
        let token = filter.token().expect("one");
        for nr in 0..512 {
            let passes = |fourth: u64| {
                let args = [0, 0, 0, fourth, 0, 0];
                let passes = run(&filter, ARCH_X86_64, nr, args) == libc::SECCOMP_RET_ALLOW;
                (passes, filter.stops(ARCH_X86_64, u64::from(nr), &args))
            };
            for wrong in [token ^ 1, token ^ 1 << 63, token << 32, token >> 32] {
                let (passes, stops) = passes(wrong);
                assert_eq!(passes, !stops, "{nr}");
            }
            let leads = [libc::SYS_openat, libc::SYS_close].contains(&i64::from(nr));
            let (passes, stops) = passes(token);
            assert_eq!(passes, leads || !stops, "{nr}");
        }
        assert_ne!(watching().token(), filter.token());
        assert_eq!(Filter::build(400, rules).token(), None);
    }

    #[test]
    fn a_fault_strikes_only_marked_calls_of_the_code() {
        let fault = Fault {
            number: libc::SYS_access as u32,
            test: Test {
                argument: 5,
                mask: u32::MAX,
                compare: Compare::Equal,
                value: 77,
            },
            error: libc::EIO as u16,
        };
        let (filter, usual) = (watching_with(Some(fault)), watching());
        let from = performed_at();
        for nr in 0..512 {
            for sixth in [0, 77] {
                let args = [0, 0, 0, 0, 0, sixth];
                let strikes = nr == fault.number && sixth == 77;
                let expected = match strikes {
                    true => libc::SECCOMP_RET_ERRNO | libc::EIO as u32,
                    false => run_at(&usual, ARCH_X86_64, nr, args, from),
                };
                assert_eq!(run_at(&filter, ARCH_X86_64, nr, args, from), expected);
                let outside = run(&filter, ARCH_X86_64, nr, args);
                assert_eq!(outside, run(&usual, ARCH_X86_64, nr, args), "{nr}");
            }
        }
    }

    #[test]
    fn unknown_numbers_and_foreign_architectures_stop() {
        let filter = Filter::build(400, |_| Rule::Allow);
        assert_eq!(
            run(&filter, ARCH_X86_64, 400, [0; 6]),
            libc::SECCOMP_RET_TRACE
        );
        let foreign = libc::SECCOMP_RET_TRACE | FOREIGN;
        assert_eq!(run(&filter, 0x4000_0003, 5, [0; 6]), foreign);
        assert_eq!(run(&filter, ARCH_X86_64, 0x4000_0001, [0; 6]), foreign);
    }
}
