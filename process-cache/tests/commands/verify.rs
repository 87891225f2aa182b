//! `pcache verify`: finds units that differ from their stored results.

use std::process::Command;

use crate::support::{PCACHE, Run, Sandbox};

fn verify(sandbox: &Sandbox, command: &str) -> Run {
    sandbox.reset();
    let mut verify = Command::new(PCACHE);
    verify.args(["verify", "--min-time", "0", "--json"]);
    verify.arg(sandbox.report());
    verify.args(["--", "sh", "-c", command]);
    sandbox.run(sandbox.environment(&mut verify))
}

#[test]
fn verify_reports_equal_results() {
    let sandbox = Sandbox::new("seq 30 > f");
    let command = "sort f > g; cat g; exit 3";
    let first = sandbox.cached(command);
    let run = verify(&sandbox, command);
    assert_eq!((run.status, &run.out), (first.status, &first.out));
    let told = (&run.err, &first.units, &run.units);
    assert!(run.err.contains("3 units ran again"), "{told:#?}");
    assert!(run.err.contains("0 with different results"), "{told:#?}");
}

#[test]
fn verify_names_the_file_and_position_of_a_difference() {
    // The command reads a file that pcache assumes to be constant.
    let sandbox = Sandbox::new("mkdir c; echo 1 > c/f; echo x > g");
    let config = sandbox.store().with_file_name("config.toml");
    let constant = format!("constant_paths = ['{}']", sandbox.path("c").display());
    std::fs::write(&config, constant).unwrap();
    let mut sandbox = sandbox;
    let variable = ("PCACHE_CONFIG".to_owned(), config.display().to_string());
    sandbox.variables.push(variable);
    let command = "cat g c/f > out; cat c/f";
    sandbox.cached(command);
    let run = {
        sandbox.reset();
        sandbox.edit("echo 2 > c/f");
        let mut verify = Command::new(PCACHE);
        verify.args(["verify", "--min-time", "0", "--", "sh", "-c", command]);
        sandbox.run(sandbox.environment(&mut verify))
    };
    for told in [
        "out differs from byte 2 on",
        "output on descriptor 1 differs from byte 0 on",
    ] {
        assert!(run.err.contains(told), "{told}: {}", run.err);
    }
    assert_eq!(run.out, "2\n");
}
