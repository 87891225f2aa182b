//! The projects that are built, and where to edit them.

/// Where a project's files come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// A Debian source package.
    Debian(&'static str),
    /// Files that this shell script makes in an empty directory. `$TOOLS` is a
    /// directory outside the tree for what is installed rather than built.
    Script(&'static str),
}

/// A project and its commands, which the shell runs at the root of its tree.
#[derive(Debug)]
pub(super) struct Workload {
    /// Its name on the command line and in tables.
    pub(super) name: &'static str,
    /// Where it comes from.
    pub(super) source: Source,
    /// Programs without which it cannot be built.
    pub(super) needs: &'static [&'static str],
    /// The command to cache.
    pub(super) build: &'static str,
    /// Brings back the state before `build`, as a developer would.
    pub(super) clean: &'static str,
    /// Asks the build tool what is out of date.
    pub(super) ask: &'static str,
    /// A source and a line to append to it.
    pub(super) source_edit: (&'static str, &'static str),
    /// A header, or what many steps read, and a line to append to it.
    pub(super) header_edit: (&'static str, &'static str),
    /// A file that did not exist, found earlier in a search path, and its
    /// content.
    pub(super) added: Option<(&'static str, &'static str)>,
    /// A file of the rules of the build, in which a line after `#` is a comment.
    pub(super) rules: Option<&'static str>,
    /// A file that `build` makes.
    pub(super) output: &'static str,
    /// Whether ccache has something to say.
    pub(super) compiles: bool,
}

const C_EDIT: &str = "const char scenario_edit[] = \"edited\";\n";
const COMMENT: &str = "/* edited */\n";
/// `early` is searched before the system's headers, through `CPATH`.
const EARLY: Option<(&str, &str)> = Some(("early/string.h", "#include_next <string.h>\n"));

/// A tree of the shape of a kernel's: 500 small files in C, each of which reads 200
/// headers.
const MANY_FILES: Workload = Workload {
    name: "",
    source: Source::Script(GENERATED_TREE),
    needs: &["gcc", "make", "awk"],
    build: "",
    clean: "make clean",
    ask: "make -q; echo $?",
    source_edit: ("part2/file42.c", C_EDIT),
    header_edit: ("include/part5/h205.h", COMMENT),
    added: EARLY,
    rules: Some("Makefile"),
    output: "part2/file42.o",
    compiles: true,
};

/// All workloads.
pub(super) const CATALOG: &[Workload] = &[
    Workload {
        name: "lua",
        source: Source::Debian("lua5.4"),
        needs: &["gcc", "make"],
        build: "make -j1 linux",
        clean: "make clean",
        ask: "make -q linux; echo $?",
        source_edit: ("src/lapi.c", C_EDIT),
        header_edit: ("src/lobject.h", COMMENT),
        added: EARLY,
        rules: Some("src/Makefile"),
        output: "src/lapi.o",
        compiles: true,
    },
    Workload {
        name: "xz",
        source: Source::Debian("xz-utils"),
        needs: &["gcc", "make"],
        build: "./configure --disable-nls && make -j2",
        // What `distclean` forgets is no part of a fresh checkout.
        clean: "make distclean && find . -name .deps -prune -exec rm -rf {} +",
        ask: "make -n | wc -l",
        source_edit: ("src/xz/list.c", C_EDIT),
        header_edit: ("src/liblzma/common/common.h", COMMENT),
        added: EARLY,
        rules: Some("src/liblzma/Makefile.in"),
        output: "src/xz/xz-list.o",
        compiles: true,
    },
    Workload {
        name: "zstd",
        source: Source::Debian("libzstd"),
        needs: &["gcc", "make"],
        build: "make -j2 zstd",
        clean: "make clean",
        ask: "make -n zstd | wc -l",
        source_edit: ("lib/compress/zstd_fast.c", C_EDIT),
        header_edit: ("lib/common/mem.h", COMMENT),
        added: EARLY,
        rules: Some("lib/Makefile"),
        output: "zstd",
        compiles: true,
    },
    Workload {
        name: "sqlite",
        source: Source::Debian("sqlite3"),
        needs: &["gcc", "make", "tclsh"],
        build: "./configure --disable-tcl --disable-readline && make -j2 sqlite3",
        clean: "make distclean",
        ask: "make -n sqlite3 | wc -l",
        source_edit: ("src/date.c", C_EDIT),
        header_edit: ("src/sqliteInt.h", COMMENT),
        added: EARLY,
        rules: Some("Makefile.in"),
        output: "sqlite3",
        compiles: true,
    },
    Workload {
        name: "redis",
        source: Source::Debian("redis"),
        needs: &["gcc", "make"],
        build: "make -j2 MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O1",
        clean: "make distclean",
        ask: "make -n MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O1 | wc -l",
        source_edit: ("src/t_string.c", C_EDIT),
        header_edit: ("src/sds.h", COMMENT),
        added: EARLY,
        rules: Some("src/Makefile"),
        output: "src/t_string.o",
        compiles: true,
    },
    Workload {
        name: "ninja",
        source: Source::Debian("ninja-build"),
        needs: &["g++", "python3", "ninja"],
        build: "/usr/bin/python3 configure.py && ninja -j2 ninja",
        clean: "rm -rf build build.ninja .ninja_log .ninja_deps ninja",
        ask: "ninja -n ninja | tail -n 1",
        source_edit: ("src/clean.cc", C_EDIT),
        header_edit: ("src/util.h", COMMENT),
        added: EARLY,
        rules: Some("configure.py"),
        output: "build/clean.o",
        compiles: true,
    },
    Workload {
        name: "fmt",
        source: Source::Debian("fmtlib"),
        needs: &["g++", "cmake", "ninja"],
        build: "cmake -G Ninja -DFMT_TEST=OFF -DFMT_DOC=OFF -S . -B build && ninja -C build",
        clean: "rm -rf build",
        ask: "ninja -C build -n | tail -n 1",
        source_edit: ("src/format.cc", C_EDIT),
        header_edit: ("include/fmt/core.h", COMMENT),
        added: EARLY,
        rules: Some("CMakeLists.txt"),
        output: "build/libfmt.a",
        compiles: true,
    },
    Workload {
        name: "many-files",
        build: "make -j1",
        ..MANY_FILES
    },
    Workload {
        name: "many-files-j2",
        build: "make -j2",
        ..MANY_FILES
    },
    Workload {
        name: "cargo",
        source: Source::Script(CARGO_PROJECT),
        needs: &["cargo", "gcc"],
        build: "CARGO_INCREMENTAL=0 cargo build --offline --quiet",
        clean: "cargo clean --quiet",
        ask: "CARGO_INCREMENTAL=0 cargo build --offline --quiet --message-format short; echo $?",
        source_edit: ("src/main.rs", "#[allow(dead_code)]\nfn edited() {}\n"),
        header_edit: ("src/page.rs", "// edited\n"),
        added: None,
        rules: None,
        output: "target/debug/pages",
        compiles: false,
    },
    Workload {
        name: "pytest",
        source: Source::Script(PYTHON_PROJECT),
        needs: &["python3"],
        build: "\"$TOOLS\"/venv/bin/python -m pytest -q -p no:cacheprovider",
        clean: "find . -name __pycache__ -prune -exec rm -rf {} +",
        ask: "true",
        source_edit: ("shapes/area.py", "EDITED = 1\n"),
        header_edit: ("shapes/__init__.py", "# edited\n"),
        added: Some(("conftest.py", "collect_ignore = []\n")),
        rules: None,
        output: "shapes/__pycache__",
        compiles: false,
    },
    Workload {
        name: "data",
        source: Source::Script(DATA_PIPELINE),
        needs: &["awk", "sort", "gzip", "xz"],
        build: "sh run.sh",
        clean: "rm -rf out",
        ask: "true",
        source_edit: ("data/sample7.tsv", "chr1\t5\t6\tedited\t1\n"),
        header_edit: ("lib/filter.awk", "# edited\n"),
        added: Some(("data/sample99.tsv", "chr1\t5\t6\tadded\t1\n")),
        rules: Some("run.sh"),
        output: "out/sample7.sorted",
        compiles: false,
    },
];

const GENERATED_TREE: &str = r##"
set -e
awk 'BEGIN {
    for (h = 0; h < 400; h++) {
        dir = "include/part" h % 10
        if (h < 10) system("mkdir -p " dir " part" h)
        file = dir "/h" h ".h"
        print "#ifndef H" h "\n#define H" h > file
        print "struct s" h " { int kind, count; struct s" h " *next; unsigned long flags[4]; };" > file
        for (f = 0; f < 4; f++) {
            print "static inline int f" h "_" f "(const struct s" h " *s) {" > file
            print "    return s->next && s->next->kind > " f " ? s->count + " f " : -1;\n}" > file
        }
        print "#endif" > file
        close(file)
    }
    print "CFLAGS = -O2 -Iinclude -MMD -MP" > "Makefile"
    print "OBJECTS = $(patsubst %.c,%.o,$(wildcard part*/*.c))" > "Makefile"
    print "all.a: $(OBJECTS)\n\trm -f $@\n\tar rcs $@ $(OBJECTS)" > "Makefile"
    print "clean:\n\trm -f all.a $(OBJECTS) $(OBJECTS:.o=.d)" > "Makefile"
    print "-include $(OBJECTS:.o=.d)" > "Makefile"
    for (c = 0; c < 500; c++) {
        file = "part" c % 10 "/file" c ".c"
        print "#include <string.h>" > file
        for (i = 0; i < 200; i++) {
            h = (c * 7 + i) % 400
            print "#include \"part" h % 10 "/h" h ".h\"" > file
        }
        h = (c * 7) % 400
        print "int use" c "(struct s" h " *s, const char *name) {" > file
        print "    for (; s; s = s->next)" > file
        print "        if (f" h "_1(s) > (int)strlen(name)) return f" h "_2(s);" > file
        print "    return 0;\n}" > file
        close(file)
    }
}'
"##;

const CARGO_PROJECT: &str = r##"
set -e
mkdir -p src .cargo
cat > Cargo.toml <<'END'
[package]
name = "pages"
version = "0.1.0"
edition = "2021"

[dependencies]
pulldown-cmark = { version = "=0.13.0", default-features = false, features = ["html"] }
itoa = "=1.0.15"
END
cat > src/main.rs <<'END'
mod page;

fn main() {
    let mut buffer = itoa::Buffer::new();
    println!("{} {}", page::render("# title\n\n*text*"), buffer.format(42));
}
END
cat > src/page.rs <<'END'
pub fn render(source: &str) -> String {
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, pulldown_cmark::Parser::new(source));
    out
}
END
cargo vendor --quiet > /dev/null
cat > .cargo/config.toml <<'END'
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
END
"##;

const PYTHON_PROJECT: &str = r#"
set -e
[ -x "$TOOLS"/venv/bin/pytest ] || { python3 -m venv "$TOOLS"/venv && "$TOOLS"/venv/bin/pip install --quiet pytest; }
mkdir -p shapes tests
: > shapes/__init__.py
cat > shapes/area.py <<'END'
import math

def circle(radius):
    if radius < 0:
        raise ValueError("negative radius")
    return math.pi * radius * radius

def primes(limit):
    sieve = bytearray([1]) * limit
    for n in range(2, limit):
        if sieve[n]:
            for multiple in range(n * n, limit, n):
                sieve[multiple] = 0
    return sum(sieve) - 2
END
for part in 1 2 3 4 5 6 7 8; do
    cat > tests/test_part$part.py <<END
import pytest
from shapes import area

@pytest.mark.parametrize("radius", range(${part}0))
def test_area_grows(radius):
    assert area.circle(radius + 1) > area.circle(radius)

def test_negative_is_refused():
    with pytest.raises(ValueError):
        area.circle(-1)

def test_primes():
    assert area.primes(${part}00000) > $part

def test_files(tmp_path):
    (tmp_path / "x").write_text("x" * $part)
    assert len((tmp_path / "x").read_text()) == $part
END
done
"#;

const DATA_PIPELINE: &str = r#"
set -e
mkdir -p data lib
for sample in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    awk -v seed=$sample 'BEGIN {
        srand(seed)
        for (n = 0; n < 20000; n++)
            printf "chr%d\t%d\t%d\tread%d\t%d\n", 1 + int(rand() * 22), int(rand() * 1e6), int(rand() * 1e6), n, int(rand() * 60)
    }' > data/sample$sample.tsv
done
echo '$5 >= 30 { print $1, $2, $3, $5 }' > lib/filter.awk
cat > run.sh <<'END'
set -e
mkdir -p out
for file in data/*.tsv; do
    name=$(basename "$file" .tsv)
    awk -F'\t' -f lib/filter.awk "$file" > out/$name.filtered
    sort -k1,1 -k2,2n out/$name.filtered > out/$name.sorted
    cut -d' ' -f1 out/$name.sorted | uniq -c > out/$name.counts
    gzip -nc out/$name.sorted > out/$name.sorted.gz
done
sort -m -k1,1 -k2,2n out/*.sorted | xz -1 -c > out/all.xz
cat out/*.counts | awk '{ sum[$2] += $1 } END { for (c in sum) print c, sum[c] }' | sort > out/summary.txt
END
"#;
