//! Tests of locating files.

use super::*;

#[test]
fn a_link_on_the_way_is_reported_and_the_resource_is_canonical() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().canonicalize().expect("its path");
    std::fs::create_dir(base.join("real")).expect("mkdir");
    std::os::unix::fs::symlink("real", base.join("alias")).expect("symlink");
    let mut locator = Locator::default();
    let found = locator.locate(&base.join("alias/file"), true);
    assert_eq!(found.resource, FilePath::from(base.join("real/file")));
    assert_eq!(found.stat.err(), Some(Errno::NOENT));
    let (given, canonical) = found.indirect.expect("an indirection");
    assert_eq!(given, FilePath::from(base.join("alias")));
    assert_eq!(canonical, FilePath::from(base.join("real")));
}

#[test]
fn directories_resolve_as_in_the_kernel() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().canonicalize().expect("its path");
    std::fs::create_dir_all(base.join("a/b/c")).expect("mkdir");
    std::fs::write(base.join("a/file"), "").expect("a file");
    for (target, link) in [
        ("a/b", "relative"),
        ("../a/b/../b", "a/winding"),
        ("loop", "loop"),
        ("nowhere", "dangling"),
        ("relative/c", "chain"),
    ] {
        std::os::unix::fs::symlink(target, base.join(link)).expect("symlink");
    }
    std::os::unix::fs::symlink(base.join("a"), base.join("absolute")).expect("symlink");
    let mut locator = Locator::default();
    for given in [
        "",
        "/",
        "/.",
        "a",
        "a/",
        "a//b",
        "a/./b/.",
        "a/b/..",
        "a/b/../..",
        "relative",
        "relative/..",
        "relative/c",
        "a/winding/c",
        "chain",
        "chain/../..",
        "absolute/b",
        "loop",
        "loop/x",
        "dangling",
        "dangling/x",
        "none",
        "none/..",
        "a/file",
        "a/file/..",
        "a/b/c/../../x",
    ] {
        let path = PathBuf::from(format!("{}/{given}", base.display()));
        let expected = path.canonicalize().ok().map(FilePath::from);
        assert_eq!(locator.directory(&path), expected, "{given}");
    }
    for given in ["/", "/..", "/.", "/../usr", "//usr"] {
        let expected = Path::new(given).canonicalize().ok().map(FilePath::from);
        assert_eq!(locator.directory(Path::new(given)), expected, "{given}");
    }
    std::fs::create_dir(base.join("none")).expect("mkdir");
    assert_eq!(locator.directory(&base.join("none")), None);
    locator.forget_absent();
    assert_eq!(
        locator.directory(&base.join("none")),
        Some(base.join("none").into())
    );
}

#[test]
fn a_dangling_link_resolves_to_the_missing_target() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().canonicalize().expect("its path");
    std::os::unix::fs::symlink("later", base.join("link")).expect("symlink");
    let mut locator = Locator::default();
    let found = locator.locate(&base.join("link"), true);
    assert_eq!(found.resource, FilePath::from(base.join("later")));
    assert_eq!(found.stat.err(), Some(Errno::NOENT));
    let found = locator.locate(&base.join("link"), false);
    assert_eq!(found.resource, FilePath::from(base.join("link")));
    assert!(found.stat.is_ok_and(|stat| is_link(&stat)));
}

#[test]
fn a_link_leads_where_it_leads_now() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().canonicalize().expect("its path");
    let link = |target: &str| {
        let _ = std::fs::remove_file(base.join("link"));
        std::os::unix::fs::symlink(target, base.join("link")).expect("symlink");
    };
    for name in ["a", "b"] {
        std::fs::write(base.join(name), "").expect("a file");
    }
    let mut locator = Locator::default();
    let mut check = |target: &str| {
        // The second resolution uses the cache.
        for _ in 0..2 {
            let found = locator.locate(&base.join("link"), true);
            assert_eq!(found.resource, FilePath::from(base.join(target)));
            let steps = found.steps.expect("the way");
            let links: Vec<_> = steps.iter().filter_map(|step| step.link.as_ref()).collect();
            assert_eq!(links.len(), 1);
            assert_eq!(links[0].path, FilePath::from(base.join("link")));
            assert_eq!(links[0].target, FilePath::from(target));
        }
    };
    link("a");
    check("a");
    link("b");
    check("b");
    std::fs::remove_file(base.join("b")).expect("unlink");
    check("b");
    std::fs::write(base.join("b"), "").expect("a file");
    check("b");
}

#[test]
fn absence_is_cached_until_a_creation_is_seen_or_possible() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().canonicalize().expect("its path");
    let path = base.join("file");
    let mut locator = Locator::default();
    assert!(locator.absent(Asked::from(path.as_path())).is_none());
    let found = locator.locate(&path, true);
    assert_eq!(found.stat.err(), Some(Errno::NOENT));
    let absent = locator
        .absent(Asked::from(path.as_path()))
        .expect("nothing was there");
    assert_eq!(
        (absent.given, absent.resource),
        (found.given, found.resource)
    );
    std::fs::write(&path, "").expect("a file");
    assert!(locator.locate(&path, true).stat.is_ok());
    assert!(locator.absent(Asked::from(path.as_path())).is_none());
    std::fs::remove_file(&path).expect("unlink");
    assert!(locator.locate(&path, true).stat.is_err());
    assert!(locator.absent(Asked::from(path.as_path())).is_some());
    // A link resolves to another path, even if an untraced process made it.
    std::os::unix::fs::symlink("there", &path).expect("symlink");
    let found = locator.locate(&path, true);
    assert_eq!(found.resource, FilePath::from(base.join("there")));
    locator.forget();
    assert!(locator.absent(Asked::from(path.as_path())).is_none());
}

#[test]
fn slashes_are_not_part_of_the_resource() {
    let mut locator = Locator::default();
    for (given, resource) in [
        ("//usr", "/usr"),
        ("/usr//x", "/usr/x"),
        ("/usr/x", "/usr/x"),
    ] {
        let found = locator.locate(Path::new(given), true);
        assert_eq!(found.resource, FilePath::from(resource), "{given}");
    }
}

#[test]
fn a_chain_of_links_resolves_to_a_present_or_missing_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().canonicalize().expect("its path");
    let link = |target: &str, link: &str| {
        std::os::unix::fs::symlink(target, base.join(link)).expect("symlink");
    };
    std::fs::create_dir(base.join("sub")).expect("mkdir");
    link("b", "a");
    link("sub/../c", "b");
    let mut locator = Locator::default();
    let mut target = || locator.target(&base.join("a"));
    assert_eq!(target(), FilePath::from(base.join("c")));
    std::fs::write(base.join("c"), "").expect("a file");
    assert_eq!(target(), FilePath::from(base.join("c")));
    std::fs::remove_file(base.join("c")).expect("unlink");
    link("a", "c");
    // A circle ends somewhere.
    assert!(target().starts_with(&base));
    std::fs::remove_file(base.join("c")).expect("unlink");
    link("/", "c");
    assert_eq!(target(), FilePath::from("/"));
}

#[test]
fn a_way_has_each_link_under_its_canonical_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let base = dir.path().canonicalize().expect("its path");
    std::fs::create_dir_all(base.join("a/b")).expect("mkdir");
    let absolute = base.join("chain").into_os_string();
    let absolute = absolute.to_str().expect("text");
    for (target, link) in [
        ("a/b/", "relative"),
        ("relative/../b", "chain"),
        (absolute, "a/absolute"),
        ("nowhere", "dangling"),
        ("loop", "loop"),
    ] {
        std::os::unix::fs::symlink(target, base.join(link)).expect("symlink");
    }
    let check = |given: &str, follow: bool, links: &[&str], end: &str| {
        let way = walk(&base.join(given), follow);
        let found: Vec<FilePath> = way.links.iter().map(|link| link.path.clone()).collect();
        let links: Vec<FilePath> = links.iter().map(|it| base.join(it).into()).collect();
        assert_eq!(found, links, "{given}");
        assert_eq!(way.end, FilePath::from(base.join(end)), "{given}");
    };
    check("a/./b/..", true, &[], "a");
    check("relative", true, &["relative"], "a/b");
    check("relative", false, &[], "relative");
    check("relative/x", false, &["relative"], "a/b/x");
    check("relative/../absolute", false, &["relative"], "a/absolute");
    let all = ["a/absolute", "chain", "relative"];
    check("a/absolute/", true, &all, "a/b");
    check("a/absolute/../new", false, &all, "a/new");
    std::fs::write(base.join("a/file"), "").expect("a file");
    check("relative/../file/../b", true, &["relative"], "a/file/../b");
    check("dangling/x/../y", true, &["dangling"], "nowhere/x/../y");
    assert!(walk(&base.join("loop"), true).end.ends_with("loop"));
    let mut locator = Locator::default();
    for given in ["relative/", "relative/.", "relative//"] {
        let found = locator.locate(&base.join(given), false);
        assert_eq!(found.given, FilePath::from(base.join(given)));
        assert_eq!(found.resource, FilePath::from(base.join("a/b")));
        assert!(found.stat.is_ok_and(|stat| is_directory(&stat)));
        let steps = found.steps.expect("the way");
        assert!(steps.iter().any(|step| step.link.is_some()));
    }
    let found = locator.locate(&base.join("relative/.."), true);
    assert_eq!(found.resource, FilePath::from(base.join("a")));
    assert!(found.indirect.is_some());
}
