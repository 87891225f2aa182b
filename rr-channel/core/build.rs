//! Finds out whether functions of the C library can be defined: in a dynamically linked program of
//! glibc's, outside of Miri, if the feature `interpose` is on. `interposes` is set then, and
//! `interposes_system_calls` where the processor is also one whose system calls are known here.

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(interposes, interposes_system_calls)");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let features = variable("CARGO_CFG_TARGET_FEATURE");
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    let interposes = env::var_os("CARGO_FEATURE_INTERPOSE").is_some()
        && variable("CARGO_CFG_TARGET_ENV") == "gnu"
        && !is_static
        && env::var_os("CARGO_CFG_MIRI").is_none();
    if interposes {
        println!("cargo::rustc-cfg=interposes");
        if variable("CARGO_CFG_TARGET_ARCH") == "x86_64" {
            println!("cargo::rustc-cfg=interposes_system_calls");
        }
    }
}
