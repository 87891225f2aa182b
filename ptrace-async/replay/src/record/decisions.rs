//! The recorder's decisions on each syscall, in the form that the documentation shows.
//!
//! The decisions come from the code that makes them: `calls`, the stub and the list of calls
//! that a replay repeats. Each call is asked about with every symbolic value that the syscall
//! table knows of its arguments, and with one value that the table does not know.

use ptrace_async::memory::Memory;
use ptrace_async::syscall::model::{Return, Type};
use ptrace_async::syscall::{Invocation, Spec, errno};

use super::calls::{self, Plan};
use crate::buffer;
use crate::tracee::repeated_calls;

/// The treatment of a call while recording.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded {
    /// Performed; its result and memory are logged.
    Performed,
    /// Performed with other arguments.
    Modified,
    /// Not performed: the recorder gives this answer.
    Answered(String),
    /// Not performed, because it could not be replayed: error and reason.
    Refused(String, &'static str),
}

/// The decision on a syscall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The treatment as a rule.
    pub recorded: Recorded,
    /// Other treatments, with the argument values that lead to them.
    pub except: Vec<(Recorded, Vec<String>)>,
    /// Whether processes perform and log it by themselves, where its arguments allow.
    pub in_process: bool,
    /// The action of a replay beyond the recorded result and memory.
    pub replayed: Option<&'static str>,
}

/// Memory that is zero wherever it is read.
struct Zeros;

impl Memory for Zeros {
    fn read(&self, _: u64, into: &mut [u8]) -> usize {
        into.fill(0);
        into.len()
    }
}

/// A value that no argument has a symbol for.
const OTHER: u64 = 0x7ead_beef;

/// The decision on a syscall.
pub fn decision(spec: &Spec) -> Decision {
    let ask = |index: usize, value: u64| {
        let mut args = [0; 6];
        args[index] = value;
        let nr = u64::from(spec.number);
        plan(calls::plan(&Invocation { nr, args }, &Zeros))
    };
    let mut outcomes = Vec::new();
    for (index, arg) in spec.args.iter().enumerate() {
        let Type::Flags(set) = arg.ty else { continue };
        for &(value, name) in set.values.iter().chain(set.bits) {
            outcomes.push((ask(index, value), name.to_owned()));
        }
        let other = format!("another {}", arg.name);
        outcomes.push((ask(index, OTHER & !set_of_bits(set.bits)), other));
    }
    let is_performed = outcomes
        .iter()
        .any(|(outcome, _)| *outcome == Recorded::Performed);
    let recorded = if is_performed {
        Recorded::Performed
    } else {
        ask(0, 0)
    };
    let mut except: Vec<(Recorded, Vec<String>)> = Vec::new();
    for (outcome, name) in outcomes {
        if outcome == recorded {
            continue;
        }
        match except.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => except.push((outcome, vec![name])),
        }
    }
    let is_refused = matches!(recorded, Recorded::Refused(..));
    Decision {
        in_process: buffer::performs(u64::from(spec.number)),
        replayed: repeated_calls::made_again(u64::from(spec.number)).filter(|_| !is_refused),
        recorded,
        except,
    }
}

fn set_of_bits(bits: &[(u64, &str)]) -> u64 {
    bits.iter().fold(0, |all, (bit, _)| all | bit)
}

fn plan(plan: Plan) -> Recorded {
    match plan {
        Plan::Perform => Recorded::Performed,
        Plan::Modify(_) => Recorded::Modified,
        Plan::Answer(0) => Recorded::Answered("success".to_owned()),
        Plan::Answer(value) => Recorded::Answered(error(value)),
        Plan::SetAffinity | Plan::GetAffinity => {
            Recorded::Answered("as if the affinity had been set".to_owned())
        }
        Plan::SetDumpable | Plan::GetDumpable => {
            Recorded::Answered("as if the dump setting had been changed".to_owned())
        }
        Plan::Refuse(value, reason) => Recorded::Refused(error(value), reason),
    }
}

fn error(value: i64) -> String {
    let number = i32::try_from(-value).unwrap_or_default();
    errno::name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Whether the kernel has no such call any more.
pub fn is_gone(spec: &Spec) -> bool {
    spec.returns == Return::NoSys
}

#[cfg(test)]
mod tests {
    use ptrace_async::syscall::table;

    use super::*;

    fn of(name: &str) -> Decision {
        decision(table::by_name(name).unwrap())
    }

    #[test]
    fn decisions_are_those_of_the_recorder() {
        assert_eq!(of("read").recorded, Recorded::Performed);
        assert!(of("read").in_process);
        assert!(matches!(
            of("io_uring_setup").recorded,
            Recorded::Refused(..)
        ));
        assert_eq!(of("rseq").recorded, Recorded::Answered("ENOSYS".to_owned()));
        assert!(of("mmap").replayed.is_some());
        assert!(of("write").replayed.is_none());
    }

    #[test]
    fn a_decision_that_depends_on_arguments_is_an_exception() {
        let prctl = of("prctl");
        assert_eq!(prctl.recorded, Recorded::Performed);
        let refused = prctl
            .except
            .iter()
            .find(|(outcome, _)| matches!(outcome, Recorded::Refused(..)));
        assert!(refused.unwrap().1.contains(&"PR_SET_SECCOMP".to_owned()));
        let ioctl = of("ioctl");
        assert_eq!(ioctl.recorded, Recorded::Performed);
        assert!(ioctl.except[0].1.contains(&"another request".to_owned()));
        let madvise = of("madvise");
        assert_eq!(
            madvise.except,
            [(Recorded::Modified, vec!["MADV_FREE".to_owned()])]
        );
    }
}
