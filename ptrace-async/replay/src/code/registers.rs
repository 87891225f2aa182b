//! The general registers of a task, as traces keep them.

use serde::{Deserialize, Serialize};

/// The general registers, in the order of `struct user_regs_struct`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers(pub [u64; 27]);

macro_rules! registers {
    ($($index:literal $name:ident),* $(,)?) => {
        impl From<&libc::user_regs_struct> for Registers {
            fn from(regs: &libc::user_regs_struct) -> Self {
                let mut all = [0; 27];
                $(all[$index] = regs.$name;)*
                Self(all)
            }
        }

        impl Registers {
            /// Puts them where ptrace(2) takes them from.
            pub fn store(&self, regs: &mut libc::user_regs_struct) {
                $(regs.$name = self.0[$index];)*
            }

            /// The address of the next instruction.
            pub fn ip(&self) -> u64 {
                self.0[16]
            }

            /// Their names, in order.
            pub const NAMES: [&'static str; 27] = [$(stringify!($name)),*];
        }
    };
}
registers!(
    0 r15, 1 r14, 2 r13, 3 r12, 4 rbp, 5 rbx, 6 r11, 7 r10, 8 r9, 9 r8, 10 rax, 11 rcx, 12 rdx,
    13 rsi, 14 rdi, 15 orig_rax, 16 rip, 17 cs, 18 eflags, 19 rsp, 20 ss, 21 fs_base, 22 gs_base,
    23 ds, 24 es, 25 fs, 26 gs,
);
