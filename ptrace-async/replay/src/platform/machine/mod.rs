//! The processor, as programs see it by instructions that a recording cannot trap.
//!
//! A trace contains this description. A replay refuses to start on a processor that differs.

mod features;

use std::arch::x86_64::{__cpuid, __cpuid_count};

use serde::{Deserialize, Serialize};

/// A processor, as programs see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The model name.
    pub processor: String,
    /// The vendor.
    pub vendor: String,
    /// Family, model and stepping (leaf 1, EAX).
    pub signature: u32,
    /// Feature bits: leaf 1 ECX and EDX, leaf 7 EBX, ECX and EDX, leaf 0x80000001 ECX
    /// and EDX.
    pub features: [u32; 7],
    /// Which registers XSAVE saves, and how large that is (leaf 13, EAX and EBX).
    pub extended_state: [u32; 2],
}

fn text(registers: &[u32]) -> String {
    let bytes: Vec<u8> = registers.iter().flat_map(|r| r.to_le_bytes()).collect();
    let text = String::from_utf8_lossy(&bytes);
    text.trim_matches(|c: char| c == '\0' || c.is_whitespace())
        .to_owned()
}

impl Machine {
    /// The processor that this process runs on.
    pub fn here() -> Self {
        let zero = __cpuid(0);
        let one = __cpuid(1);
        let seven = __cpuid_count(7, 0);
        let state = __cpuid_count(13, 0);
        let extended = __cpuid(0x8000_0001);
        let name: Vec<u32> = (0x8000_0002..=0x8000_0004)
            .map(__cpuid)
            .flat_map(|r| [r.eax, r.ebx, r.ecx, r.edx])
            .collect();
        Self {
            processor: text(&name),
            vendor: text(&[zero.ebx, zero.edx, zero.ecx]),
            signature: one.eax,
            features: [
                one.ecx,
                one.edx,
                seven.ebx,
                seven.ecx,
                seven.edx,
                extended.ecx,
                extended.edx,
            ],
            extended_state: [state.eax, state.ebx],
        }
    }

    /// The reason why a recording from `recorded` cannot be replayed here.
    pub fn objection(&self, recorded: &Self) -> Option<String> {
        let lacks = features::beyond(&recorded.features, &self.features);
        let has = features::beyond(&self.features, &recorded.features);
        let mut differences = Vec::new();
        if !lacks.is_empty() {
            differences.push(format!("has no {}", lacks.join(", ")));
        }
        if !has.is_empty() {
            differences.push(format!("has {} as well", has.join(", ")));
        }
        if self.extended_state != recorded.extended_state {
            let [mask, size] = self.extended_state;
            let [their_mask, their_size] = recorded.extended_state;
            differences.push(format!(
                "saves other registers (XSAVE mask {mask:#x}, {size} bytes; recorded: {their_mask:#x}, \
                 {their_size} bytes)"
            ));
        }
        if differences.is_empty() {
            return None;
        }
        Some(format!(
            "it was recorded on {} ({}), and this {} ({}) {}; programs see this by the cpuid instruction, which is not trapped: replay on a \
             processor with the same features",
            recorded.processor,
            recorded.vendor,
            self.processor,
            self.vendor,
            differences.join(", and ")
        ))
    }
}
