//! Resource limits: set by a process, inherited, or set from outside.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{PCACHE, Sandbox, program};

#[test]
fn the_limits_that_a_command_is_given_are_in_its_key() {
    let sandbox = Sandbox::new("");
    let limited = |limit: &str| {
        let pcache = sandbox.pcache();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -S -n {limit}; exec \"$@\""), "sh"]);
        shell.arg(pcache.get_program()).args(pcache.get_args());
        shell.args(["--", "sh", "-c", "ulimit -n"]);
        sandbox.run(sandbox.environment(&mut shell)).out
    };
    assert_eq!(limited("100"), "100\n");
    assert_eq!(limited("120"), "120\n");
}

/// Prints its limit.
const SHOW: &str = "sh -c 'ulimit -n'";

#[test]
fn limits_set_during_a_run_are_in_later_keys() {
    let script = format!(
        "{SHOW}; for n in 150 160 150; do ulimit -S -n $n; {SHOW}; done; \
         (ulimit -S -n 140; {SHOW}; {SHOW}); {SHOW}; \
         sh -c \"ulimit -S -n 130; {SHOW}; :\"; {SHOW}"
    );
    let sandbox = Sandbox::new("");
    let plain = sandbox.plain(&script);
    let first = sandbox.cached(&script);
    first.assert_like(&plain, "first run");
    // The children are looked up, although the command itself differs.
    let again = sandbox.cached(&format!("{script}; :"));
    again.assert_like(&plain, "second run");
    assert!(!again.is_hit(), "{:#?}", again.units);
    let skipped = again.units.iter().filter(|unit| unit.result == "hit");
    assert!(skipped.count() >= 8, "{:#?}", again.units);
}

#[test]
fn a_limit_that_a_library_call_sets_is_in_the_keys_as_well() {
    let Some(cc) = program(&["cc"]) else { return };
    let source = "#include <sys/resource.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
                  int main(int argc, char **argv) {\n\
                  struct rlimit limit;\n\
                  getrlimit(RLIMIT_NOFILE, &limit);\n\
                  limit.rlim_cur = argc > 1 ? 170 : 180;\n\
                  if (syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit)) return 1;\n\
                  return execlp(\"sh\", \"sh\", \"-c\", \"ulimit -n\", (char *)0);\n}";
    let sandbox = Sandbox::new(&format!("cat > p.c <<'E'\n{source}\nE\n{cc} -o p p.c"));
    for script in ["./p", "./p x; :", "./p; ./p x; ./p"] {
        let plain = sandbox.plain(script);
        sandbox.cached(script).assert_like(&plain, script);
    }
}

/// Runs commands before and after an outside process sets a limit of their shell.
fn set_from_outside(before: &str, after: &str) -> (String, serde_json::Value) {
    let sandbox = Sandbox::new("mkfifo begun go");
    let mut pcache = sandbox.pcache();
    let script = format!("{before} echo $$ > begun; read x < go; {after}; :");
    pcache.args(["--", "sh", "-c", &script]);
    let child = pcache.stdout(Stdio::piped()).spawn();
    let child = child.expect("pcache starts");
    let shell: i32 = sandbox.text("begun").trim().parse().expect("a number");
    let limit = Rlimit {
        current: Some(190),
        maximum: Some(190),
    };
    prlimit(Pid::from_raw(shell), Resource::Nofile, limit).expect("a limit");
    sandbox.edit("echo > go");
    let output = child.wait_with_output().expect("it ends");
    let report = std::fs::read_to_string(sandbox.report()).expect("a report");
    let report = serde_json::from_str(&report).expect("JSON");
    (String::from_utf8_lossy(&output.stdout).into_owned(), report)
}

#[test]
fn units_under_limits_set_from_outside_are_not_stored_until_an_exec() {
    let before = format!("{SHOW} > shown;");
    let (out, report) = set_from_outside(&before, &format!("{SHOW}; {SHOW}"));
    assert_eq!(out, "190\n190\n");
    let units = report["units"].as_array().expect("units");
    let results: Vec<_> = units[2..].iter().map(|unit| &unit["result"]).collect();
    assert_eq!(results, ["not_stored", "stored"], "{report:#}");
    let reason = units[2]["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("resource limits that another process set"),
        "{report:#}"
    );
}

#[test]
fn a_unit_that_sets_limits_must_have_had_those_of_its_key() {
    let sets = "sh -c 'ulimit -S -n 120; ulimit -n'";
    let (out, report) = set_from_outside(&format!("{SHOW} > shown;"), sets);
    assert_eq!(out, "120\n");
    let units = report["units"].as_array().expect("units");
    let last = units.last().expect("one");
    let reason = last["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("resource limits that another process set"),
        "{report:#}"
    );
}

#[test]
fn where_a_limit_is_too_small_for_a_cache_the_command_runs_without() {
    let sandbox = Sandbox::new("");
    for limit in ["-f 1000", "-v 100000", "-d 20000", "-n 20"] {
        let script = format!("ulimit {limit}; \"$0\" -- sh -c 'echo ran > made'; cat made");
        let mut shell = Command::new("sh");
        let run = sandbox.run(sandbox.environment(shell.args(["-c", &script, PCACHE])));
        assert_eq!(run.out, "ran\n", "{limit}: {run:#?}");
        assert!(
            run.err.contains("runs without a cache"),
            "{limit}: {run:#?}"
        );
        sandbox.edit("rm made");
    }
}
