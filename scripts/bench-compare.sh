#!/usr/bin/env bash
# Compares the benches of the work tree (head) with those of a revision (base) on this machine.
#
#   scripts/bench-compare.sh BASE [both]             does both of these
#   scripts/bench-compare.sh BASE instructions       ends with 1 if a bench takes over 5 % more instructions
#   scripts/bench-compare.sh BASE times [OPTION…]    prints times, taken in the order base, head, head, base; OPTION is criterion's
#
# Exit status: 1 for more instructions, 3 if there is no comparison, 64 for a usage error.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "bench-compare: $*" >&2; }
kind=${2-both}
case ${1:+$kind} in
    both) benches=(locks deductions instructions) ;;
    times) benches=(locks deductions) ;;
    instructions) benches=(instructions) ;;
    *) say 'usage: scripts/bench-compare.sh BASE [both|instructions|times [OPTION…]]'; exit 64 ;;
esac
commit=$(git rev-parse --verify --quiet --end-of-options "$1^{commit}") || { say "there is no revision $1 here"; exit 64; }
shift "$(($# > 1 ? 2 : 1))"
work=$PWD/target/bench-compare

remove() { git worktree remove --force --force "$work/sources" 2>/dev/null || rm -rf "$work/sources"; git worktree prune; }
trap remove EXIT
remove
rm -rf "$work/base" "$work/head" "$work/results"
mkdir -p "$work/base" "$work/head" "$work/results"
git worktree add --quiet --detach "$work/sources" "$commit"

# Both programs get paths of one length: callgrind counts what the heap does with a path. Each side has a target folder: Cargo
# would take the crates of one for those of the other.
build() { # side, sources, target folder
    cargo bench --locked --no-run --message-format=json-render-diagnostics --manifest-path "$2/Cargo.toml" --target-dir "$3" \
        --package bench "${benches[@]/#/--bench=}" |
        sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p' |
        while read -r program; do name=${program##*/}; cp "$program" "$work/$1/${name%-*}" || exit; done
}
build base "$work/sources" "$work/target" || exit 3
build head . target || exit 3

run() { # turn, bench, options: what it says goes to a log, and the end of that to the terminal if it fails
    local turn=$1 bench=$2 side=${1%-*} folder=bench status=0
    local log=$work/results/$bench-$turn.log
    [ "$side" = head ] || folder=$work/sources/bench
    shift 2
    say "$bench, $turn"
    (cd "$folder" && CRITERION_HOME=$work/results/criterion "$work/$side/$bench" --bench "$@") >"$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || tail -n 20 "$log" >&2
    return "$status"
}

failed=0
for bench in "${benches[@]}"; do
    if [ "$bench" = instructions ]; then
        run base instructions --home="$work/results" --save-baseline=base || exit 3
        run head instructions --home="$work/results" --baseline=base --callgrind-limits='ir=5%' || failed=$?
        cat "$work/results/instructions-head.log"
        case $failed in 0) ;; 3) failed=1 ;; *) exit 3 ;; esac
    else
        for turn in base-1 head-1 head-2 base-2; do
            run "$turn" "$bench" --noplot --save-baseline "$turn" "$@" || exit 3
        done
    fi
done
[ "$kind" = instructions ] || critcmp --target-dir "$work/results" base-1 base-2 head-1 head-2 || exit 3
exit "$failed"
