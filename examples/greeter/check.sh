#!/bin/sh
# usage: check.sh GREETER EXPECTED: what the program says against what it should.
set -eu
greeter=$1
expected=$2

say() {
    "$greeter" -L
    for code in $("$greeter" -L | cut -d ' ' -f 1); do
        "$greeter" -l "$code" Ada Grace
    done
    "$greeter" -b -w 12 'Ada, Countess of Lovelace'
    "$greeter" -b -l ja Ada
    "$greeter" -l xx Ada 2>&1 || echo "status $?"
}

said=$(say)
if [ "$said" = "$(cat "$expected")" ]; then
    echo "check: ok"
else
    printf '%s\n' "$said" | diff "$expected" - >&2 || true
    echo "check: FAILED" >&2
    exit 1
fi
