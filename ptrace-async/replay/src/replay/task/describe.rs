//! Descriptions of calls and stops for divergence reports.

use ptrace_async::runtime::Stop;
use ptrace_async::syscall::Invocation;

use crate::trace::event::Call;
use crate::tracee::trapped::check;

pub(super) fn call(call: &Call) -> String {
    let invocation = call.invocation();
    let [a, b, c, d, e, f] = call.args;
    format!(
        "{}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x}) at {:#x}, stack {:#x}, digest of other registers {:08x}",
        invocation.syscall().name(),
        call.ip,
        call.sp,
        call.check
    )
}

/// A call that did not stop.
pub(super) fn made(nr: u64, args: [u64; 6]) -> String {
    let call = Invocation { nr, args };
    let [a, b, c, d, e, f] = args;
    format!(
        "{}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x})",
        call.syscall().name()
    )
}

pub(super) fn stop(stop: &Stop) -> String {
    match stop {
        Stop::Prehook(tracee) => {
            let regs = tracee.registers();
            call(&Call {
                nr: tracee.invocation().nr,
                args: tracee.invocation().args,
                ip: tracee.instruction_pointer(),
                sp: tracee.stack_pointer(),
                check: regs.map_or(0, |regs| check(&regs)),
            })
        }
        Stop::Signal(tracee) => {
            let ip = tracee.registers().map_or(0, |regs| regs.rip);
            format!("signal {} at {ip:#x}", tracee.signal())
        }
        other => format!("{other:?}"),
    }
}
