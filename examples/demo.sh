#!/bin/sh
# Builds pcache, and with it a small C project three times from scratch: the
# first time everything runs, the second time nothing, and after an edit only
# what depends on it. Writes below the target directory only.
set -eu
cd "$(dirname "$0")/.."

for tool in cc make awk ar; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "demo: $tool is not installed (a C compiler, make and awk are needed)" >&2
        exit 1
    fi
done

CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
export CARGO_TARGET_DIR
# Linked statically, where the static C library is installed, it starts in half
# the time.
set --
case $(cc -print-file-name=libc.a) in
*/libc.a) set -- -C target-feature=+crt-static -C relocation-model=static ;;
esac
cargo rustc --release --package process-cache --bin pcache -- "$@"
PATH=$(cd "$CARGO_TARGET_DIR/release" && pwd):$PATH

# A copy of the project, and a store that holds nothing yet.
demo=$CARGO_TARGET_DIR/demo
rm -rf "$demo"
mkdir -p "$demo"
cp -R examples/greeter "$demo/greeter"
PCACHE_DIR=$(cd "$demo" && pwd)/store
export PATH PCACHE_DIR
# Compilers put temporary files here.
TMPDIR=$PCACHE_DIR.tmp
mkdir "$TMPDIR"
export TMPDIR
unset MAKEFLAGS MFLAGS
cd "$demo/greeter"
make >/dev/null

run() {
    make clean >/dev/null
    printf '\n$ make clean; %s\n' "$*"
    "$@"
}

printf '\n== the first time: everything runs\n'
run pcache -- make

printf '\n== again: nothing has changed, nothing runs\n'
run pcache -- make

printf '\n== after an edit: what does not depend on it is skipped\n'
sed 's/Good day/Good morning/' greetings.txt >greetings.new
mv greetings.new greetings.txt
run pcache --explain -- make
