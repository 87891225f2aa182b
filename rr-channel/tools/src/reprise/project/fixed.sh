#!/bin/sh
# Stands between cargo and rustc for the packages of the project: an executable of theirs is
# linked to fixed addresses, unless something speaks against it.
before=
fixed=no
for arg; do
    case "$before $arg" in
    *' --emit='*link*) [ "$fixed" = never ] || fixed=yes ;;
    '--crate-type bin' | '--target '*-linux-gnu) ;;
    # Other crates, build scripts, other platforms; and who has chosen already.
    '--crate-type '* | '--crate-name build_script_'* | '--extern proc_macro' | '--target '* | \
        *relocation-model* | *link-arg*pie* | *prefer-dynamic* | *sanitize*)
        fixed=never
        ;;
    esac
    before=$arg
done
[ "$fixed" = yes ] && set -- "$@" -C relocation-model=static
exec "$@"
