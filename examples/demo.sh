#!/bin/sh
# Builds pcache, and with it a small C project three times: everything runs,
# nothing runs, and after an edit only what depends on it runs. Writes below
# the target directory only.
set -eu
cd "$(dirname "$0")/.."

# The tools outside of Rust's that this needs.
for tool in cc make awk; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "demo: $tool is not installed (a C compiler, make and awk are needed)" >&2
        exit 1
    fi
done

CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
export CARGO_TARGET_DIR
cargo build --release --package process-cache --bin pcache
pcache=$(cd "$CARGO_TARGET_DIR/release" && pwd)/pcache

# A copy of the project, and a store that holds nothing yet.
demo=$CARGO_TARGET_DIR/demo
rm -rf "$demo"
mkdir -p "$demo"
cp -R examples/greeter "$demo/greeter"
PCACHE_DIR=$(cd "$demo" && pwd)/store
export PCACHE_DIR
cd "$demo/greeter"
make clean >/dev/null

run() {
    echo
    echo "\$ $*"
    shift
    "$pcache" "$@"
}

echo
echo "== the first build: everything runs"
run pcache -- make check

echo
echo "== again, from scratch: nothing runs"
make clean >/dev/null
run pcache -- make check

echo
echo "== after an edit, from scratch: what does not depend on it is skipped"
sed 's/Good day/Good morning/' greetings.txt >greetings.new
mv greetings.new greetings.txt
sed -e 's/Good day, Ada!/Good morning, Ada!/' -e 's/Good day, Grace!/Good morning, Grace!/' \
    expected.txt >expected.new
mv expected.new expected.txt
make clean >/dev/null
run pcache --explain -- make greeter
