//! `cargo reprise minimize` on tests that fail now and then, each for one known reason.
//!
//! The tests are those of the package in `planted`. Which runs are compared is chance, and
//! so may be which of several decisions are found; what is asserted is true of each.

mod common;

use std::fs;
use std::process::Output;

use common::{Project, package};
use serde_json::Value;

struct Planted(Project);

impl Planted {
    fn new() -> Self {
        Planted(Project::copy_of("planted"))
    }

    fn reprise(&self, args: &[&str]) -> Output {
        self.0.reprise(args).output().unwrap()
    }

    fn record(&self, until: &str, test: &str) {
        let output = self.reprise(&[
            "test",
            "--places",
            "--chaos",
            "--at-most",
            "300",
            "--until",
            until,
            "-q",
            "--",
            "--exact",
            test,
        ]);
        let expected = if until == "success" { 0 } else { 101 };
        assert_eq!(output.status.code(), Some(expected), "{}", text(&output));
    }

    /// The answer, as JSON and as text.
    fn minimize(&self, test: &str) -> (Value, String) {
        self.record("success", test);
        self.record("failure", test);
        let json = self.0.path().join("minimum.json");
        let output = self.reprise(&["minimize", "--json", json.to_str().unwrap()]);
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("the test fails when\n"), "{said}");
        let value: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
        // The answer holds, and it is a recording that fails again.
        assert_eq!(value["confirmed"], serde_json::json!([5, 5]), "{said}");
        assert!(value["changes"].as_u64().unwrap() >= 1, "{said}");
        assert!(value["changes"].as_u64() <= value["differences"].as_u64());
        let number = value["recording"].to_string();
        let output = self.reprise(&["replay", &number]);
        assert_eq!(output.status.code(), Some(101), "{}", text(&output));
        (value, said)
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The place of the line with this comment.
fn line(comment: &str) -> String {
    let source = fs::read_to_string(package("planted").join("src/lib.rs")).unwrap();
    let at = source.lines().position(|line| line.contains(comment));
    format!("src/lib.rs:{}", at.unwrap() + 1)
}

fn decisions(value: &Value) -> Vec<&Value> {
    value["decisions"].as_array().unwrap().iter().collect()
}

#[test]
fn minimize_names_the_planted_cause() {
    let project = Planted::new();

    // Of all messages, two decide.
    let (value, said) = project.minimize("a_message_comes_too_late");
    let [decision] = decisions(&value)[..] else {
        panic!("{said}");
    };
    assert_eq!(decision["kind"], "order", "{said}");
    let text = decision["text"].as_str().unwrap();
    let (first, second) = text.split_once(" arrives before ").unwrap();
    assert!(first.contains(&line("// the close")), "{said}");
    assert!(second.contains(&line("// the payment")), "{said}");

    // The two threads' uses of the locks between read and write are what counts.
    let (value, said) = project.minimize("an_update_is_lost");
    assert!(!decisions(&value).is_empty(), "{said}");
    for decision in decisions(&value) {
        assert_eq!(decision["kind"], "turn", "{said}");
        let text = decision["text"].as_str().unwrap();
        let (first, second) = text.split_once(" has the lock before ").unwrap();
        assert!(first.contains("an_update_is_lost/~"), "{said}");
        assert!(second.contains("an_update_is_lost/~"), "{said}");
    }

    // All messages of some worker go to others.
    let (value, said) = project.minimize("a_worker_gets_nothing");
    let [decision] = decisions(&value)[..] else {
        panic!("{said}");
    };
    assert_eq!(decision["kind"], "consumer", "{said}");
    let text = decision["text"].as_str().unwrap();
    assert!(text.starts_with("thread `worker "), "{said}");
    let receive = line("r.recv()");
    assert!(
        text.contains(&format!("receives nothing at {receive}")),
        "{said}"
    );

    // The arm that stops is taken while there are requests.
    let (value, said) = project.minimize("a_stop_is_seen_before_a_request");
    let [decision] = decisions(&value)[..] else {
        panic!("{said}");
    };
    assert_eq!(decision["kind"], "arm", "{said}");
    let text = decision["text"].as_str().unwrap();
    let (first, second) = text.split_once(" is selected before ").unwrap();
    assert!(first.contains(&line("stop.send")), "{said}");
    assert!(second.contains(&line("requests.send")), "{said}");

    // Time is up.
    let (value, said) = project.minimize("an_answer_takes_too_long");
    let [decision] = decisions(&value)[..] else {
        panic!("{said}");
    };
    assert_eq!(decision["kind"], "outcome", "{said}");
    let text = decision["text"].as_str().unwrap();
    assert!(text.contains("the end of its time"), "{said}");
    assert!(text.contains(&line("recv_timeout(")), "{said}");
}

#[test]
fn minimize_names_the_read_of_a_clock_that_decides() {
    let project = Planted::new();
    let (value, said) = project.minimize("work_takes_an_odd_time");
    let [decision] = decisions(&value)[..] else {
        panic!("{said}");
    };
    assert_eq!(decision["kind"], "clock", "{said}");
    // Any of the times since the beginning may have become odd.
    let text = decision["text"].as_str().unwrap();
    assert!(text.contains(" pass until thread "), "{said}");
    assert!(text.contains(" reads the clock at src/lib.rs:"), "{said}");
    let place = decision["places"][0].as_str().unwrap();
    let at: usize = place.rsplit_once(':').unwrap().1.parse().unwrap();
    let is_after = |comment| {
        let line = line(comment);
        at > line.rsplit_once(':').unwrap().1.parse::<usize>().unwrap()
    };
    assert!(
        is_after("// the beginning") && !is_after("// the end"),
        "{said}"
    );
}

#[test]
fn minimize_refuses_recordings_that_cannot_be_compared() {
    let project = Planted::new();
    let output = project.reprise(&["minimize"]);
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output);
    assert!(said.contains("there is no recording that fails"), "{said}");

    let test = "a_worker_gets_nothing";
    let output = project.reprise(&[
        "test", "--chaos", "--until", "failure", "-q", "--", "--exact", test,
    ]);
    assert_eq!(output.status.code(), Some(101), "{}", text(&output));
    let output = project.reprise(&["minimize", "--failing", "1"]);
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output);
    assert!(said.contains("record with --places"), "{said}");

    project.record("failure", "a_worker_gets_nothing");
    let output = project.reprise(&["minimize"]);
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output);
    assert!(said.contains("there is no recording that passes"), "{said}");
}
