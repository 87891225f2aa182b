//! Credential helpers: programs that provide headers.
//!
//! The helper runs as `PROGRAM get`, reads `{"uri": "https://HOST:PORT"}`, and writes `{"headers":
//! {"NAME": ["VALUE"]}}`, as Bazel's helpers do
//! (<https://github.com/EngFlow/credential-helper-spec>). The expiry of its answer is ignored:
//! each run asks again.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use serde::Deserialize;

use crate::remote::protocol::{Failure, Result};

/// Maximal length of an answer, in bytes.
const LONGEST: usize = 1 << 20;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    headers: BTreeMap<String, Vec<String>>,
}

/// Asks a program for the headers of a server.
///
/// # Errors
/// [`Failure::Forbidden`] if it fails, or does not answer within `limit`.
pub(super) fn ask(program: &Path, uri: &str, limit: Duration) -> Result<Vec<(String, String)>> {
    let failed = |why: &dyn std::fmt::Display| {
        let program = program.display();
        Failure::Forbidden(format!("the credential helper {program} {why}"))
    };
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&format!("cannot be run: {error}")))?;
    let answered = converse(&mut child, uri, limit);
    if answered.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| failed(&error))?;
    let answer = answered.map_err(|why| failed(&why))?;
    if !status.success() {
        return Err(failed(&format!("failed ({status})")));
    }
    // Its output may be a secret.
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|_| failed(&"does not answer with JSON that has headers"))?;
    let one = |(name, values): (String, Vec<String>)| {
        values.into_iter().map(move |value| (name.clone(), value))
    };
    Ok(answer.headers.into_iter().flat_map(one).collect())
}

fn converse(child: &mut Child, uri: &str, limit: Duration) -> std::io::Result<Vec<u8>> {
    let end = Instant::now() + limit;
    if let Some(mut input) = child.stdin.take() {
        let question = serde_json::json!({ "uri": uri }).to_string();
        // It need not read its input.
        let _ = input.write_all(question.as_bytes());
    }
    let mut answer = Vec::new();
    let Some(mut output) = child.stdout.take() else {
        return Ok(answer);
    };
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(&output, PollFlags::IN)];
        let left = left.try_into().unwrap_or_default();
        let ready = match poll(&mut polled, Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            ready => ready?,
        };
        if ready == 0 {
            return Err(std::io::Error::other("does not answer in time"));
        }
        let mut piece = [0; 4096];
        let count = output.read(&mut piece)?;
        answer.extend_from_slice(&piece[..count]);
        if count == 0 {
            return Ok(answer);
        }
        if answer.len() > LONGEST {
            return Err(std::io::Error::other("answers too much"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[track_caller]
    fn check(script: &str, limit: Duration) -> Result<Vec<(String, String)>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("helper");
        let written = dir.path().join("written");
        std::fs::write(&written, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&written, mode).unwrap();
        // Copied by another process: a writable descriptor in a child of another test would make
        // the file busy.
        let copied = Command::new("cp").arg(&written).arg(&path).status();
        assert!(copied.unwrap().success());
        ask(&path, "https://host:1", limit)
    }

    #[test]
    fn a_credential_helper_is_asked_for_a_server() {
        let long = Duration::from_secs(300);
        let script = r#"read line; test "$1" = get || exit 1
            test "$line" = '{"uri":"https://host:1"}' || exit 2
            echo '{"headers": {"a": ["1", "2"], "b": ["x"]}, "expires": "2030"}'"#;
        let headers = check(script, long).unwrap();
        let expected = [("a", "1"), ("a", "2"), ("b", "x")];
        assert_eq!(headers, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(check("echo '{}'", long), Ok(Vec::new()));
        for (script, why) in [
            ("exit 3", "exit status: 3"),
            ("echo secret", "JSON"),
            ("yes", "too much"),
        ] {
            let failure = check(script, long).unwrap_err().to_string();
            assert!(
                failure.contains(why) && !failure.contains("secret"),
                "{failure}"
            );
        }
        let failure = check("exec sleep 1000", Duration::from_millis(1)).unwrap_err();
        assert!(failure.to_string().contains("in time"), "{failure}");
    }
}
