#!/bin/sh
# The steps of the actions in .github/actions: they run loadgen in a workflow, and comment on its pull request.
#
#   scripts/action.sh get PROGRAM...         downloads programs of a release, or builds them
#   scripts/action.sh run check|compare      runs loadgen, shows its report in the summary of the job, and ends with its status
#   scripts/action.sh comment FILE           writes a file as a comment, or over the comment of an earlier run
#
# The inputs of the actions are variables of the environment, so no shell reads them as its own text:
#
#   get       PROGRAMS: folder of programs that are there. VERSION: number of the release, or `source` to build. Empty: the
#             number of this checkout. ACTION_REPOSITORY: OWNER/NAME of the release
#   run       PROGRAMS; SHOP: shop files, one a line; STRATEGIES, USERS, TRIALS, OUT; ARGS: words, quoted as in a shell;
#             PASS_ON: the statuses that end this script with 0
#   comment   NAME: what tells the comment from others; PULL_REQUEST: number; GH_TOKEN
#
# Exit status: as loadgen ends; 3 if there is no program or no comment, 64 for a usage error.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
temporary=${RUNNER_TEMP:-${TMPDIR:-/tmp}}
# A comment has at most 65 536 characters.
COMMENT_BYTES=60000

say() {
    printf '%s\n' "action: $*" >&2
}

refuse() {
    say "$1"
    exit 64
}

# Sets an output of the step.
tell() {
    printf '%s=%s\n' "$1" "$2" >>"${GITHUB_OUTPUT:-/dev/null}"
}

# Prints what the archives of this system have in their names.
system() {
    case "$(uname -s) $(uname -m)" in
        'Linux x86_64') echo x86_64-unknown-linux-gnu ;;
        'Linux aarch64' | 'Linux arm64') echo aarch64-unknown-linux-gnu ;;
        'Darwin x86_64') echo x86_64-apple-darwin ;;
        'Darwin arm64') echo aarch64-apple-darwin ;;
        *) return 1 ;;
    esac
}

# Downloads the archive of a release ($1) and checks it. Sets `programs`.
download() {
    archive=seckill-v$1-$(system) || {
        say "a release has no programs for $(uname -sm); build them: version: source"
        exit 3
    }
    folder=$temporary/loadgen-download
    address=${GITHUB_SERVER_URL:-https://github.com}/${ACTION_REPOSITORY:-$GITHUB_REPOSITORY}/releases/download/v$1
    rm -rf "$folder"
    mkdir -p "$folder"
    for file in "$archive.tar.gz" "$archive.tar.gz.sha256"; do
        curl --fail --silent --show-error --location --retry 3 --output "$folder/$file" "$address/$file" || {
            say "$address/$file could not be downloaded; name a release: version: X.Y.Z, or build: version: source"
            exit 3
        }
    done
    # Linux has the first program, macOS the second.
    sum='sha256sum'
    command -v sha256sum >/dev/null || sum='shasum -a 256'
    # shellcheck disable=SC2086
    (cd "$folder" && $sum --check "$archive.tar.gz.sha256" >&2) || {
        say "$address/$archive.tar.gz does not have its checksum; run the job again, or build: version: source"
        exit 3
    }
    tar -xzf "$folder/$archive.tar.gz" -C "$folder"
    programs=$folder/$archive
}

# Builds programs of this checkout. Sets `programs`.
build() {
    packages=
    for program in "$@"; do
        packages="$packages --package=$program"
    done
    # One word a package.
    # shellcheck disable=SC2086
    (cd "$root" && cargo build --release --locked --target-dir target $packages) || {
        say 'the programs could not be built; see the lines above'
        exit 3
    }
    programs=$root/target/release
}

get() {
    version=${VERSION:-}
    version=${version#v}
    programs=${PROGRAMS:-}
    if [ -z "$programs" ]; then
        case $version in
            source) build "$@" ;;
            *[!0-9A-Za-z.+-]*) refuse "\"$version\" is no version; write X.Y.Z or source" ;;
            '') download "$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)" ;;
            *) download "$version" ;;
        esac
    fi
    for program in "$@"; do
        [ -x "$programs/$program" ] || {
            say "$programs has no program $program; correct the input programs, or leave it out to download a release"
            exit 3
        }
    done
    tell programs "$programs"
}

# Prints the words of a text, one a line. Quotes and backslashes are read as in a shell. Nothing is expanded.
words() {
    printf '%s\n' "$1" | xargs -n 1 printf '%s\n'
}

# Prints the report of this run as Markdown. Without one, it prints the end of the log. An earlier run may have left a report.
summary() { # command, status, folder of the report, log, a file as old as this run
    for report in "$3/diff.md" "$3/report.md"; do
        if [ "$report" -nt "$5" ]; then
            cat "$report"
            return
        fi
    done
    printf '### loadgen %s ended with status %s and no report\n\n````text\n' "$1" "$2"
    tail -n 20 "$4"
    printf '````\n'
}

run() {
    command=$1
    out=${OUT:-report}
    more=
    if [ -n "${ARGS:-}" ]; then
        more=$(words "$ARGS") || refuse "args has a quote without its other half: $ARGS"
    fi
    set -- "$command" --out "$out"
    [ -z "${STRATEGIES:-}" ] || set -- "$@" --strategies "$STRATEGIES"
    [ -z "${USERS:-}" ] || set -- "$@" --users "$USERS"
    [ -z "${TRIALS:-}" ] || set -- "$@" --trials "$TRIALS"
    while IFS= read -r file; do
        [ -z "$file" ] || set -- "$@" --shop "$file"
    done <<END
${SHOP:-}
END
    while IFS= read -r word; do
        [ -z "$more" ] || set -- "$@" "$word"
    done <<END
$more
END
    log=$temporary/loadgen-$command.log
    before=$temporary/loadgen-$command.before
    ended=$temporary/loadgen-$command.status
    : >"$before"
    say "loadgen $*"
    # A pipe has the status of its last command, so the status goes into a file.
    { (set +e; "$PROGRAMS/loadgen" "$@" 2>&1; echo "$?" >"$ended") } | tee "$log"
    status=$(cat "$ended")

    text=$temporary/loadgen-$command.md
    summary "$command" "$status" "$out" "$log" "$before" >"$text"
    cat "$text" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
    tell status "$status"
    tell text "$text"
    [ ! "$out/report.json" -nt "$before" ] || tell report "$out"
    for passing in 0 $(printf '%s' "${PASS_ON:-}" | tr ',' ' '); do
        [ "$status" != "$passing" ] || exit 0
    done
    echo "::error title=loadgen $command::ended with status $status; the summary of the job says why"
    exit "$status"
}

# Prints the number of our comment with this mark, or nothing. Others may write such a mark, and other steps comment as the same user.
earlier_comment() {
    comments=$(gh pr view "$PULL_REQUEST" --repo "$GITHUB_REPOSITORY" --json comments) &&
        printf '%s\n' "$comments" | jq --raw-output --arg mark "$1" \
            '[.comments[] | select(.viewerDidAuthor and (.body | startswith($mark)))] | last | values | .url | sub(".*issuecomment-"; "")'
}

write_comment() { # file, number of the earlier comment or nothing
    if [ -n "$2" ]; then
        gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$2" --field "body=@$1"
    else
        gh api --silent --method POST "repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments" --field "body=@$1"
    fi
}

comment() {
    mark="<!-- ${NAME:-loadgen} -->"
    text=$temporary/loadgen-comment.md
    {
        printf '%s\n\n' "$mark"
        if [ "$(wc -c <"$1")" -le "$COMMENT_BYTES" ]; then
            cat "$1"
        else
            # The last line is not whole.
            head -c "$COMMENT_BYTES" "$1" | sed '$d'
            printf '\nThe summary of the job has the rest.\n'
        fi
    } >"$text"
    if ! { earlier=$(earlier_comment "$mark") && write_comment "$text" "$earlier"; }; then
        say "no comment was written; give the job the permission pull-requests: write. A pull request from a fork has no token that may write"
        exit 3
    fi
}

step=${1:-}
[ $# -eq 0 ] || shift
case $step-$# in
    get-[1-9]) get "$@" ;;
    run-1) run "$1" ;;
    comment-1) comment "$1" ;;
    *) refuse 'usage: scripts/action.sh get PROGRAM... | run check|compare | comment FILE' ;;
esac
