//! The names of the processor's features, as Linux has them in `/proc/cpuinfo`
//! (`arch/x86/include/asm/cpufeatures.h`), by the words of [`super::Machine::features`].

/// Bits without a name, in the tables below.
const NONE: &str = "";

const LEAF_1_ECX: [&str; 32] = [
    "pni",
    "pclmulqdq",
    "dtes64",
    "monitor",
    "ds_cpl",
    "vmx",
    "smx",
    "est",
    "tm2",
    "ssse3",
    "cid",
    "sdbg",
    "fma",
    "cx16",
    "xtpr",
    "pdcm",
    NONE,
    "pcid",
    "dca",
    "sse4_1",
    "sse4_2",
    "x2apic",
    "movbe",
    "popcnt",
    "tsc_deadline_timer",
    "aes",
    "xsave",
    "osxsave",
    "avx",
    "f16c",
    "rdrand",
    "hypervisor",
];

const LEAF_1_EDX: [&str; 32] = [
    "fpu", "vme", "de", "pse", "tsc", "msr", "pae", "mce", "cx8", "apic", NONE, "sep", "mtrr",
    "pge", "mca", "cmov", "pat", "pse36", "pn", "clflush", NONE, "dts", "acpi", "mmx", "fxsr",
    "sse", "sse2", "ss", "ht", "tm", "ia64", "pbe",
];

const LEAF_7_EBX: [&str; 32] = [
    "fsgsbase",
    "tsc_adjust",
    "sgx",
    "bmi1",
    "hle",
    "avx2",
    "fdp_excptn_only",
    "smep",
    "bmi2",
    "erms",
    "invpcid",
    "rtm",
    "cqm",
    "zero_fcs_fds",
    "mpx",
    "rdt_a",
    "avx512f",
    "avx512dq",
    "rdseed",
    "adx",
    "smap",
    "avx512ifma",
    NONE,
    "clflushopt",
    "clwb",
    "intel_pt",
    "avx512pf",
    "avx512er",
    "avx512cd",
    "sha_ni",
    "avx512bw",
    "avx512vl",
];

const LEAF_7_ECX: [&str; 32] = [
    "prefetchwt1",
    "avx512vbmi",
    "umip",
    "pku",
    "ospke",
    "waitpkg",
    "avx512_vbmi2",
    "user_shstk",
    "gfni",
    "vaes",
    "vpclmulqdq",
    "avx512_vnni",
    "avx512_bitalg",
    "tme",
    "avx512_vpopcntdq",
    NONE,
    "la57",
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    "rdpid",
    NONE,
    "bus_lock_detect",
    "cldemote",
    NONE,
    "movdiri",
    "movdir64b",
    "enqcmd",
    "sgx_lc",
    NONE,
];

const LEAF_7_EDX: [&str; 32] = [
    NONE,
    NONE,
    "avx512_4vnniw",
    "avx512_4fmaps",
    "fsrm",
    NONE,
    NONE,
    NONE,
    "avx512_vp2intersect",
    "srbds_ctrl",
    "md_clear",
    "rtm_always_abort",
    NONE,
    "tsx_force_abort",
    "serialize",
    "hybrid_cpu",
    "tsxldtrk",
    NONE,
    "pconfig",
    "arch_lbr",
    "ibt",
    NONE,
    "amx_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "spec_ctrl",
    "intel_stibp",
    "flush_l1d",
    "arch_capabilities",
    "core_capabilities",
    "spec_ctrl_ssbd",
];

const EXTENDED_ECX: [&str; 32] = [
    "lahf_lm",
    "cmp_legacy",
    "svm",
    "extapic",
    "cr8_legacy",
    "abm",
    "sse4a",
    "misalignsse",
    "3dnowprefetch",
    "osvw",
    "ibs",
    "xop",
    "skinit",
    "wdt",
    NONE,
    "lwp",
    "fma4",
    "tce",
    NONE,
    "nodeid_msr",
    NONE,
    "tbm",
    "topoext",
    "perfctr_core",
    "perfctr_nb",
    NONE,
    "bpext",
    "ptsc",
    "perfctr_llc",
    "mwaitx",
    NONE,
    NONE,
];

const EXTENDED_EDX: [&str; 32] = [
    NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, "syscall", NONE, NONE, NONE,
    NONE, NONE, NONE, NONE, "mp", "nx", NONE, "mmxext", NONE, NONE, "fxsr_opt", "pdpe1gb",
    "rdtscp", NONE, "lm", "3dnowext", "3dnow",
];

/// Names of the words, for bits without a name.
const WORDS: [(&str, &[&str; 32]); 7] = [
    ("1.ecx", &LEAF_1_ECX),
    ("1.edx", &LEAF_1_EDX),
    ("7.ebx", &LEAF_7_EBX),
    ("7.ecx", &LEAF_7_ECX),
    ("7.edx", &LEAF_7_EDX),
    ("80000001.ecx", &EXTENDED_ECX),
    ("80000001.edx", &EXTENDED_EDX),
];

/// The names of the features that `one` has and `other` has not.
pub(super) fn beyond(one: &[u32; 7], other: &[u32; 7]) -> Vec<String> {
    let mut names = Vec::new();
    for ((word, table), (one, other)) in WORDS.iter().zip(one.iter().zip(other)) {
        for (bit, name) in table.iter().enumerate() {
            if one & !other & 1 << bit == 0 {
                continue;
            }
            names.push(if *name == NONE {
                format!("bit {bit} of cpuid {word}")
            } else {
                (*name).to_owned()
            });
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_names_are_those_of_the_kernel() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags"));
        let flags: Vec<&str> = flags.unwrap().split_whitespace().collect();
        let here = crate::platform::machine::Machine::here();
        let names = beyond(&here.features, &[0; 7]);
        // What the kernel shows of these words under the same name, and the processor has.
        for name in ["sse2", "cx16", "lm", "syscall", "nx", "fpu", "cmov"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        let all: Vec<&str> = WORDS
            .iter()
            .flat_map(|(_, table)| *table)
            .copied()
            .collect();
        for flag in flags.iter().filter(|flag| all.contains(flag)) {
            assert!(
                names.iter().any(|known| known == flag),
                "{flag} is elsewhere"
            );
        }
    }

    #[test]
    fn a_bit_without_a_name_is_named_by_its_position() {
        let names = beyond(&[1 << 16, 0, 0, 0, 0, 0, 0], &[0; 7]);
        assert_eq!(names, ["bit 16 of cpuid 1.ecx"]);
    }
}
