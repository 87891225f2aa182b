use super::*;

fn roots(places: &[(&str, &str)]) -> Roots {
    let root = |(name, path): &(&str, &str)| Root {
        name: (*name).to_owned(),
        path: path.as_bytes().to_vec(),
    };
    Roots::of(places.iter().map(root).collect())
}

fn text(roots: &Roots, text: &str) -> String {
    let named = roots.text(text.as_bytes());
    let named = named.unwrap_or_else(|| text.as_bytes().to_vec());
    String::from_utf8(named).unwrap().replace('\0', "@")
}

#[test]
fn paths_in_texts_get_names() {
    let roots = roots(&[("home", "/home/ann"), ("work", "/home/ann/work")]);
    for (given, named) in [
        ("/home/ann/work", "/@work"),
        ("/home/ann/work/a.c", "/@work/a.c"),
        ("-I/home/ann/work/i", "-I/@work/i"),
        ("CFLAGS=-O2 -I/home/ann/work -g", "CFLAGS=-O2 -I/@work -g"),
        (
            "-ffile-prefix-map=/home/ann/work=.",
            "-ffile-prefix-map=/@work=.",
        ),
        (
            "PATH=/home/ann/bin:/home/ann/work/bin:/bin",
            "PATH=/@home/bin:/@work/bin:/bin",
        ),
        ("cd '/home/ann/work' && x", "cd '/@work' && x"),
        ("/home/ann/work2/a", "/@home/work2/a"),
    ] {
        assert_eq!(text(&roots, given), named);
    }
}

#[test]
fn what_is_a_path_only_perhaps_stays() {
    let roots = roots(&[("work", "/home/ann/work")]);
    for stays in [
        "/home/ann/work2",
        "/home/ann/work.old/x",
        "/chroot/home/ann/work",
        "x/home/ann/work",
        "-isysroot/home/ann/work",
        "/home/ann//work",
        "/home/ann",
        "//home/ann/work",
    ] {
        assert_eq!(text(&roots, stays), stays);
    }
}

#[test]
fn a_question_is_asked_about_the_own_root() {
    let (there, here) = (roots(&[("w", "/a/b")]), roots(&[("w", "/c/d/e")]));
    let asked = |path: &str| {
        let named = there.named(&path.into());
        here.here(&named).unwrap()
    };
    assert_eq!(asked("/a/b/x"), FilePath::from("/c/d/e/x"));
    assert_eq!(asked("/a/b"), FilePath::from("/c/d/e"));
    assert_eq!(asked("/a/bc/x"), FilePath::from("/a/bc/x"));
    let other = roots(&[("v", "/a/b")]);
    assert_eq!(here.here(&other.named(&"/a/b/x".into())), None);
}

#[test]
fn answers_lead_from_a_root_into_the_same_one_only() {
    let roots = roots(&[("v", "/v"), ("w", "/w")]);
    let answer = |from: &str, to: &str| {
        let answer = Answer::Path(to.into());
        roots.answer(&Query::RealPath(from.into()), &answer)
    };
    let named = roots.named(&"/w/x".into());
    assert_eq!(answer("/w/l", "/w/x"), Some(Answer::Path(named)));
    assert_eq!(answer("/w/l", "/usr"), Some(Answer::Path("/usr".into())));
    assert_eq!(answer("/usr/l", "/w/x"), None);
    assert_eq!(answer("/v/l", "/w/x"), None);
}

#[test]
fn conditions_are_asked_like_facts() {
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
        let fact = there.fact(condition, &there.roots[0]);
        let here = roots(&[("w", here)]);
        let answer = here.ask(&fact.query, &mut |query| panic!("{query:?}"));
        assert_eq!(answer == fact.answer, holds, "{condition:?} {here:?}");
    }
}

#[test]
fn what_leads_out_by_its_text_is_seen() {
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

#[test]
fn names_of_roots_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    let words = |words: &[String]| Roots::new(words).map(|roots| roots.roots.len());
    assert!(matches!(words(&[format!("a={place}")]), Ok(1)));
    for wrong in [
        vec![format!("a={place}"), format!("a={place}")],
        vec![format!("={place}")],
        vec![format!("a/b={place}")],
        vec!["a=/".to_owned()],
        vec![format!("a={place}/missing")],
    ] {
        assert!(Roots::new(&wrong).is_err(), "{wrong:?}");
    }
}

/// What a part of a unit made is settled by whoever records the part, before or while the
/// unit is recorded.
#[test]
fn what_the_parts_of_a_unit_made_is_waited_for() {
    let roots: &'static Roots = Box::leak(Box::new(roots(&[("work", "/w")])));
    let (part, whole) = (roots.turn(), roots.turn());
    let digest = Digest([1; 32]);
    let (asks, is_asked) = std::sync::mpsc::channel();
    let recorder = std::thread::spawn(move || {
        is_asked.recv().unwrap();
        for _ in 0..1000 {
            std::thread::yield_now();
        }
        roots.lock_settled().insert(digest);
        drop(part);
    });
    asks.send(()).unwrap();
    assert!(roots.is_settled(&digest, &whole));
    assert!(!roots.is_settled(&Digest([2; 32]), &whole));
    recorder.join().unwrap();
}
