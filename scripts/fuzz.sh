#!/usr/bin/env bash
# Looks for inputs that break a property of a parser, with libFuzzer.
#
#   scripts/fuzz.sh [TARGET…]          runs these targets, or all, for FUZZ_SECONDS each (60)
#   scripts/fuzz.sh --list             prints the targets
#   scripts/fuzz.sh --crates           prints the crates and programs that have targets. Builds nothing
#   scripts/fuzz.sh --keep [TARGET…]   adds the inputs of earlier runs that reach more code to tools/fuzz/__fuzz__/TARGET/corpus
#
# An input that breaks a property goes to tools/fuzz/__fuzz__/TARGET/crashes. From then on `cargo test` replays it.
#
# Exit status: 1 if a property is broken, 3 if the targets cannot be built, 64 for a usage error.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "fuzz: $*" >&2; }
goal=run
case ${1-} in
    --list | --crates | --keep) goal=${1#--}; shift ;;
    -*) say 'usage: scripts/fuzz.sh [--list|--crates|--keep] [TARGET…]'; exit 64 ;;
esac
seconds=${FUZZ_SECONDS:-60}
case $seconds in '' | *[!0-9]* | 0*) say "FUZZ_SECONDS is a number of seconds from 1 on, and not $seconds"; exit 64 ;; esac
inputs=$PWD/tools/fuzz/__fuzz__
work=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')

# libFuzzer reads a counter on each edge. Because of `--target`, build scripts and macros have none.
coverage=(level=4 inline-8bit-counters pc-table trace-compares)
flags="--cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module ${coverage[*]/#/-Cllvm-args=-sanitizer-coverage-}"
# The linker would drop the tables, which only their names keep.
[ "$(uname)" != Linux ] || flags+=' -Clink-arg=-Wl,-z,nostart-stop-gc'

crates() { # prints what has targets, as cargo takes it: -p NAME for each crate, and --bin NAME for each program with targets of its own
    find . -name target -prune -o -name fuzzed.rs -print | while read -r folder; do
        root=
        until [ -e "$folder/Cargo.toml" ]; do
            folder=${folder%/*}
            for name in lib main; do [ -n "$root" ] || [ ! -e "$folder/$name.rs" ] || root=$folder/$name.rs; done
        done
        awk -F '"' -v root="${root#"$folder"/}" '
            /^name = / { name = $2; if (!package) package = bin = name }
            /^path = / && $2 == root { bin = name }
            END { print "-p " package; if (root ~ /main.rs$/) print "--bin " bin }' "$folder/Cargo.toml"
    done | sort -u
}

# Only what has a target is linked with libFuzzer, by the crate `fuzz`. A test of anything else would lack it.
build() { # prints the programs that have the tests of these crates
    crates | RUSTFLAGS=$flags xargs cargo test --locked --profile fuzz --target "$host" --target-dir "$work/build" \
        --lib --no-run --message-format=json-render-diagnostics |
        sed -n 's/.*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\1/p'
}

list() { # prints each target with its test and its program
    local program
    while read -r program; do
        FUZZ_LIST=1 "$program" fuzzed:: --nocapture --test-threads 2 | sed -n "s|^fuzz target \(.*\)|\1 $program|p"
    done
}

child=
trap '[ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null || true; exit 130' INT TERM

libfuzzer() { # target, test, program, options: runs it in a folder of its own, because options are separated by spaces
    local run=$work/run/$1
    mkdir -p "$run/corpus" "$inputs/$1/corpus" "$inputs/$1/crashes"
    ln -sfn "$inputs/$1/corpus" "$run/kept"
    ln -sfn "$inputs/$1/crashes" "$run/crashes"
    local status=0
    (
        cd "$run"
        # A merge starts itself again by these variables.
        export BOLERO_LIBTEST_HARNESS=1 BOLERO_TEST_NAME=$2 BOLERO_LIBFUZZER_ARGS="${*:4}"
        exec "$3" "$2" --exact --nocapture --quiet --test-threads 1 >log 2>&1
    ) &
    child=$!
    wait "$child" || status=$?
    child=
    rmdir "$inputs/$1/crashes" 2>/dev/null || true
    return "$status"
}

if [ "$goal" = crates ]; then
    crates
    exit
fi
built=$(build) || { say 'the targets were not built'; exit 3; }
targets=$(list <<<"$built" | sort)
if [ "$goal" = list ]; then
    cut -d ' ' -f 1 <<<"$targets"
    exit
fi
for target in "$@"; do
    grep -q "^$target " <<<"$targets" || { say "there is no target $target; scripts/fuzz.sh --list prints them"; exit 64; }
done

failed=0
while read -r target test program; do
    [ $# -eq 0 ] || [[ " $* " = *" $target "* ]] || continue
    log=$work/run/$target/log
    if [ "$goal" = keep ]; then
        libfuzzer "$target" "$test" "$program" -set_cover_merge=1 kept corpus || { tail -n 20 "$log" >&2; exit 3; }
        say "$target: $(find "$inputs/$target/corpus" -type f | wc -l) inputs are kept"
        continue
    fi
    if libfuzzer "$target" "$test" "$program" corpus kept -artifact_prefix=crashes/ -max_total_time="$seconds" -max_len=4096 \
        -timeout=20 -print_final_stats=1; then
        found=
    else
        failed=1
        found=', and breaks its property'
        tail -n 40 "$log" >&2
        say "$target is broken. To see it again: cargo test ${test%::fuzzed::*}::fuzzed"
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf '%-20s %10s executions%s\n' "$target" "${executions:-?}" "$found"
done <<<"$targets"
exit "$failed"
