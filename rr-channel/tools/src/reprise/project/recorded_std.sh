#!/bin/sh
# Stands between cargo and the compiler: a crate that is built for the target, and none that the
# build itself runs, gets a `std` that records.
for_target=no
for arg; do
    case "$arg" in
    --target | --target=*) for_target=yes ;;
    esac
done
if [ "$for_target" = yes ]; then
    set -- "$@" -L dependency=@DEPENDENCIES@
    case "${CARGO_PKG_NAME:-}" in
    rr-channel)
        set -- "$@" --extern rr_channel_core=@CORE@ --extern rr_channel_log=@LOG@
        ;;
    @ORIGINAL@) ;;
    *) set -- "$@" --extern std=@STD@ ;;
    esac
fi
exec @CHAIN@"$@"
