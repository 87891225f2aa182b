use super::*;

fn roots(places: &[(&str, &str)]) -> Relocation {
    let root = |(name, path): &(&str, &str)| BaseDir {
        name: (*name).to_owned(),
        path: path.as_bytes().to_vec(),
    };
    Relocation::new(BaseDirs::of(places.iter().map(root).collect()))
}

#[test]
fn queries_are_mapped_to_the_own_base_directory() {
    let (there, here) = (roots(&[("w", "/a/b")]), roots(&[("w", "/c/d/e")]));
    let asked = |path: &str| {
        let named = there.base_dirs.named(&path.into());
        here.base_dirs.here(&named).unwrap()
    };
    assert_eq!(asked("/a/b/x"), FilePath::from("/c/d/e/x"));
    assert_eq!(asked("/a/b"), FilePath::from("/c/d/e"));
    assert_eq!(asked("/a/bc/x"), FilePath::from("/a/bc/x"));
    let other = roots(&[("v", "/a/b")]);
    assert_eq!(
        here.base_dirs
            .here(&other.base_dirs.named(&"/a/b/x".into())),
        None
    );
}

#[test]
fn answers_may_only_stay_in_their_base_directory() {
    let roots = roots(&[("v", "/v"), ("w", "/w")]);
    let answer = |from: &str, to: &str| {
        let answer = Answer::Path(to.into());
        roots.answer(&Query::RealPath(from.into()), &answer)
    };
    let named = roots.base_dirs.named(&"/w/x".into());
    assert_eq!(answer("/w/l", "/w/x"), Some(Answer::Path(named)));
    assert_eq!(answer("/w/l", "/usr"), Some(Answer::Path("/usr".into())));
    assert_eq!(answer("/usr/l", "/w/x"), None);
    assert_eq!(answer("/v/l", "/w/x"), None);
}

#[test]
fn conditions_are_mapped_like_facts() {
    let there = roots(&[("w", "/a/b/c")]);
    for (condition, here, holds) in [
        (Condition::Depth, "/x/y/z", true),
        (Condition::Depth, "/a/b", false),
        (Condition::Length, "/x/y/z", true),
        (Condition::Length, "/x/y/zz", false),
        (Condition::Part(0), "/x/c", true),
        (Condition::Part(0), "/c/x", false),
        (Condition::Part(2), "/a/x/x", true),
        (Condition::Part(2), "/x/x", false),
        (Condition::Head(0), "/a", true),
        (Condition::Up(1), "/a/b/d", true),
        (Condition::Up(1), "/b/a/c", false),
    ] {
        let fact = there.fact(condition, &there.base_dirs.all()[0]);
        let here = roots(&[("w", here)]);
        let answer = here.ask(&fact.query, &mut |query| panic!("{query:?}"));
        assert_eq!(answer == fact.answer, holds, "{condition:?} {here:?}");
    }
}

#[test]
fn paths_that_leave_their_directory_are_recognised() {
    for (path, out) in [
        ("", false),
        ("/a/../b", false),
        ("/./a", false),
        ("/..", true),
        ("/a/../../b", true),
        ("/../a", true),
    ] {
        assert_eq!(leads_out(path.as_bytes()), out, "{path}");
    }
}

/// The outputs of a unit's part are settled by the thread that records the part, before or while
/// the unit is recorded.
#[test]
fn a_unit_waits_for_the_outputs_of_its_parts() {
    let roots = Arc::new(roots(&[("work", "/w")]));
    let (part, whole) = (roots.turn(), roots.turn());
    let digest = Digest([1; 32]);
    let (asks, is_asked) = std::sync::mpsc::channel();
    let recording = roots.clone();
    let recorder = std::thread::spawn(move || {
        is_asked.recv().unwrap();
        for _ in 0..1000 {
            std::thread::yield_now();
        }
        recording.lock_settled().insert(digest);
        drop(part);
    });
    asks.send(()).unwrap();
    assert!(roots.is_settled(&digest, &whole));
    assert!(!roots.is_settled(&Digest([2; 32]), &whole));
    recorder.join().unwrap();
}
