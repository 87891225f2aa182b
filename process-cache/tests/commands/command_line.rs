//! Options, exit statuses and messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{PCACHE, Run, Sandbox, copy_program};

/// `pcache` with these arguments only.
fn pcache(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    let mut command = Command::new(PCACHE);
    sandbox.run(sandbox.environment(command.args(arguments)))
}

#[test]
fn a_missing_command_fails_as_in_a_shell() {
    let run = pcache(&Sandbox::new(""), &["--", "no-such-program-anywhere"]);
    assert_eq!(run.status.code(), Some(127));
}

#[test]
fn commands_without_a_cache_fail_as_in_a_shell_too() {
    let sandbox = Sandbox::new("");
    fs::write(sandbox.path("plain"), "").expect("a file");
    for (command, status) in [("no-such-program-anywhere", 127), ("./plain", 126)] {
        let mut pcache = Command::new(PCACHE);
        let pcache = sandbox.environment(pcache.args(["--", command]));
        let run = sandbox.run(pcache.env("PCACHE_DISABLE", "1"));
        assert_eq!(run.status.code(), Some(status), "{}", run.err);
    }
}

#[test]
fn an_unknown_option_or_no_command_is_a_wrong_use() {
    let run = pcache(&Sandbox::new(""), &["--no-such-option", "--", "true"]);
    assert_eq!(run.status.code(), Some(2));
    let run = pcache(&Sandbox::new(""), &["--quiet"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(run.err.contains("no command"), "{}", run.err);
}

#[test]
fn the_status_is_the_commands_own() {
    let sandbox = Sandbox::new("");
    for status in [0, 1, 2, 125, 255] {
        let script = format!("exit {status}");
        assert_eq!(
            pcache(&sandbox, &["--", "sh", "-c", &script]).status.code(),
            Some(status)
        );
    }
}

#[test]
fn disabled_pcache_is_the_plain_command() {
    let mut sandbox = Sandbox::new("");
    sandbox.variables = vec![("PCACHE_DISABLE".into(), "1".into())];
    let run = pcache(&sandbox, &["--", "sh", "-c", "echo text; exit 3"]);
    assert_eq!(
        (run.status.code(), run.out.as_str(), run.err.as_str()),
        (Some(3), "text\n", "")
    );
    assert!(!sandbox.store().exists());
}

#[test]
fn a_zero_does_not_disable() {
    let mut sandbox = Sandbox::new("");
    sandbox.variables = vec![("PCACHE_DISABLE".into(), "0".into())];
    sandbox.cached("echo text");
    sandbox.cached("echo text").assert_hit();
}

#[test]
fn a_summary_is_the_last_line_on_standard_error() {
    let sandbox = Sandbox::new("");
    let arguments = ["--min-time", "0", "--", "sh", "-c", "echo aside >&2"];
    let run = pcache(&sandbox, &arguments);
    assert!(
        run.err.starts_with("aside\npcache: 1 unit, 0 skipped"),
        "{}",
        run.err
    );
    let run = pcache(&sandbox, &arguments);
    assert!(
        run.err
            .starts_with("aside\npcache: skipped (1 unit unchanged)"),
        "{}",
        run.err
    );
}

#[test]
fn quiet_prints_nothing() {
    let sandbox = Sandbox::new("");
    for _ in 0..2 {
        assert_eq!(pcache(&sandbox, &["--quiet", "--", "true"]).err, "");
    }
}

#[test]
fn refresh_runs_and_replaces() {
    let mut sandbox = Sandbox::new("");
    sandbox.cached("echo text");
    sandbox.options = vec!["--refresh".into()];
    let run = sandbox.cached("echo text");
    assert_eq!(
        (run.whole().result.as_str(), run.out.as_str()),
        ("stored", "text\n")
    );
    sandbox.options.clear();
    sandbox.cached("echo text").assert_hit();
}

#[test]
fn read_only_uses_and_does_not_store() {
    let mut sandbox = Sandbox::new("");
    sandbox.cached("echo one");
    sandbox.options = vec!["--read-only".into()];
    sandbox.cached("echo one").assert_hit();
    for _ in 0..2 {
        assert!(!sandbox.cached("echo two").is_hit());
    }
}

#[test]
fn stats_count_the_stored_results() {
    let sandbox = Sandbox::new("");
    let stats = |sandbox: &Sandbox| {
        let run = pcache(sandbox, &["stats", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
        json["entries"].as_u64().expect("a number")
    };
    sandbox.cached("echo one");
    let before = stats(&sandbox);
    sandbox.cached("echo two");
    assert_eq!(stats(&sandbox), before + 1);
    assert!(pcache(&sandbox, &["stats"]).out.contains("size"));
}

#[test]
fn clear_forgets_everything() {
    let sandbox = Sandbox::new("");
    sandbox.cached("echo text");
    assert!(pcache(&sandbox, &["clear"]).status.success());
    sandbox.cached("echo text").assert_miss("no earlier run");
}

#[test]
fn the_counts_of_a_report_match_its_list() {
    let sandbox = Sandbox::new("");
    sandbox.cached("/bin/echo one; /bin/echo two; :");
    let report = fs::read(sandbox.report()).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["version"], 1);
    assert_eq!(report["summary"]["units"], 3);
    assert_eq!(report["units"].as_array().map(Vec::len), Some(3));
}

#[test]
fn explain_names_the_difference() {
    let sandbox = Sandbox::new("echo 1 > f");
    let arguments = ["--explain", "--min-time", "0", "--", "cat", "f"];
    assert!(
        pcache(&sandbox, &arguments)
            .err
            .contains("no earlier run with the same program, arguments and environment")
    );
    assert!(pcache(&sandbox, &arguments).err.contains("hit"));
    sandbox.edit("echo 2 > f");
    let run = pcache(&sandbox, &arguments);
    assert!(
        run.err.contains("content of") && run.err.contains("differs"),
        "{}",
        run.err
    );
}

#[test]
fn a_store_that_cannot_be_made_is_no_reason_to_fail() {
    let sandbox = Sandbox::new("echo text > file");
    let store = sandbox.path("file").join("store");
    let mut command = Command::new(PCACHE);
    sandbox.environment(command.args(["--", "sh", "-c", "cat file; exit 3"]));
    let run = sandbox.run(command.env("PCACHE_DIR", store));
    assert_eq!((run.status.code(), run.out.as_str()), (Some(3), "text\n"));
    assert!(run.err.contains("without a cache"), "{}", run.err);
}

#[test]
fn a_damaged_store_is_no_reason_to_fail() {
    let sandbox = Sandbox::new("seq 10 > f");
    let command = "sort -r f > g";
    sandbox.cached(command);
    let right = sandbox.text("g");
    let mut stack = vec![sandbox.store()];
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            stack.extend(
                fs::read_dir(&path)
                    .expect("a directory")
                    .flatten()
                    .map(|e| e.path()),
            );
        } else {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
            fs::write(&path, b"garbage").expect("a file");
        }
    }
    sandbox.reset();
    let run = sandbox.cached(command);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(sandbox.text("g"), right);
}

#[test]
fn a_user_without_rights_gets_hits_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::new("seq 10 > f");
    let open = fs::Permissions::from_mode(0o777);
    let root = sandbox.dir().parent().expect("a parent").to_owned();
    for path in [&root, &sandbox.dir()] {
        fs::set_permissions(path, open.clone()).expect("a mode");
    }
    // Other users may have no access to the build directory.
    let program = root.join("pcache");
    copy_program(PCACHE, &program);
    let run = || {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program);
        command.args([
            "--explain",
            "--min-time",
            "0",
            "--",
            "sh",
            "-c",
            "sort -r f > g; cat g; id -u",
        ]);
        sandbox.run(sandbox.environment(&mut command))
    };
    let first = run();
    assert!(first.out.ends_with("1\n65534\n"), "{first:?}");
    sandbox.edit("rm g");
    let second = run();
    assert_eq!(second.out, first.out);
    assert!(second.err.contains("skipped ("), "{}", second.err);
}

#[test]
fn the_configuration_sets_constants_and_uncacheable_programs() {
    let mut sandbox = Sandbox::new("mkdir tools; echo 1 > tools/f; echo 1 > g");
    let config = sandbox.path("config.toml");
    let tools = sandbox.path("tools");
    let text = format!(
        "ignore_variables = [\"BUILD_*\"]\nuncacheable = [\"tail\"]\nconstant_paths = [{:?}]\n",
        tools.display()
    );
    let write =
        |sandbox: &Sandbox| std::fs::write(sandbox.path("config.toml"), &text).expect("a file");
    let configured = ("PCACHE_CONFIG".to_owned(), config.display().to_string());
    sandbox.variables = vec![configured.clone(), ("BUILD_NUMBER".into(), "1".into())];
    write(&sandbox);
    let first = sandbox.cached("cat tools/f g > out");
    assert_eq!(first.whole().result, "stored", "{:#?}", first.units);
    sandbox.variables = vec![configured.clone(), ("BUILD_NUMBER".into(), "2".into())];
    sandbox.reset();
    write(&sandbox);
    sandbox.edit("echo 2 > tools/f");
    sandbox.cached("cat tools/f g > out").assert_hit();
    sandbox
        .cached("tail g")
        .assert_uncacheable("is listed under `uncacheable`");
    // What was stored under another configuration is not used.
    std::fs::write(&config, "").expect("a file");
    assert_eq!(
        sandbox.cached("cat tools/f g > out").whole().result,
        "stored"
    );
    assert_eq!(sandbox.cached("tail g").whole().result, "stored");
    sandbox.cached("tail g").assert_hit();
    write(&sandbox);
    sandbox
        .cached("tail g")
        .assert_uncacheable("is listed under `uncacheable`");
    // `--strict` ignores all of it.
    sandbox.options = vec!["--strict".into()];
    assert_eq!(sandbox.cached("tail g").whole().result, "stored");
    sandbox.options = Vec::new();
    // An unknown key is an error.
    std::fs::write(&config, "ignore_variable = []").expect("a file");
    let refused = sandbox.run(sandbox.pcache().args(["--", "true"]));
    assert_eq!(refused.status.code(), Some(125));
    assert!(refused.err.contains("ignore_variable"), "{}", refused.err);
}

#[test]
fn the_doctor_skips_a_program() {
    let sandbox = Sandbox::new("");
    let mut doctor = std::process::Command::new(crate::support::PCACHE);
    let output = sandbox
        .environment(doctor.args(["doctor", "--json"]))
        .output();
    let output = output.expect("pcache runs");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{json:#}");
    let findings = json["findings"].as_array().expect("findings");
    let skipping = findings
        .iter()
        .find(|finding| finding["what"] == "skipping");
    assert_eq!(skipping.expect("it was tried")["state"], "good", "{json:#}");
}

#[test]
fn the_doctor_names_a_limit_of_file_sizes() {
    let sandbox = Sandbox::new("");
    let script = r#"ulimit -f 1000; exec "$0" doctor"#;
    let mut shell = Command::new("sh");
    let run = sandbox.run(sandbox.environment(shell.args(["-c", script, PCACHE])));
    assert!(run.out.contains("ulimit -f is"), "{}", run.out);
}

#[test]
fn a_store_of_another_version_is_emptied_by_clear() {
    let sandbox = Sandbox::new("");
    sandbox.cached("echo x");
    std::fs::write(sandbox.store().join("format"), "format 0\n").expect("a file");
    let run = sandbox.run(sandbox.pcache().args(["--", "echo", "x"]));
    assert_eq!(run.out, "x\n");
    assert!(run.err.contains("made by another version"), "{}", run.err);
    let mut clear = std::process::Command::new(crate::support::PCACHE);
    let output = sandbox.environment(clear.arg("clear")).output();
    assert!(output.expect("pcache runs").status.success());
    assert_eq!(sandbox.cached("echo x").whole().result, "stored");
    sandbox.cached("echo x").assert_hit();
}
