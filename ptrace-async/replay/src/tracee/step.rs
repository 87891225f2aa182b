//! Single steps.

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Signal, Stop, Tracee};

/// The flag by which a processor steps.
const TRAP: u64 = 1 << 8;

/// Lets a task execute one instruction, and waits for what comes of it. The program is not to
/// have the flag by which the processor steps, unless it has set it by itself: it would trap
/// later, without a tracer that expects it.
///
/// The kernel hides the flag as well, but not from an instruction that stores it, and no more
/// after one that loads the flags (`enable_single_step` in arch/x86/kernel/step.c).
pub(crate) async fn step(tracee: Tracee<Parked>) -> Stop {
    let Ok(before) = tracee.registers() else {
        return tracee.step().stop().await;
    };
    let mut code = [0; 15];
    let got = tracee.read(before.rip, &mut code);
    let instruction = Decoder::new(64, &code[..got], DecoderOptions::NONE).decode();
    let stop = tracee.step().stop().await;
    if before.eflags & TRAP == 0
        && let Stop::Signal(tracee) = &stop
    {
        hide(tracee, instruction.mnemonic());
    }
    stop
}

fn hide(tracee: &Tracee<Signal>, stepped: Mnemonic) {
    let Ok(mut regs) = tracee.registers() else {
        return;
    };
    let loads = [
        Mnemonic::Popf,
        Mnemonic::Popfq,
        Mnemonic::Iretd,
        Mnemonic::Iretq,
    ];
    // Errors mean that the task is gone.
    if regs.eflags & TRAP != 0 && !loads.contains(&stepped) {
        regs.eflags &= !TRAP;
        let _ = tracee.set_registers(&regs);
    }
    let mut word = [0; 2];
    if matches!(stepped, Mnemonic::Pushf | Mnemonic::Pushfq)
        && tracee.signal() == libc::SIGTRAP
        && tracee.read_exact(regs.rsp, &mut word).is_ok()
    {
        let without = u16::from_le_bytes(word) & !(TRAP as u16);
        let _ = tracee.write(regs.rsp, &without.to_le_bytes());
    }
}
