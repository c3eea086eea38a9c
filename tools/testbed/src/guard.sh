# Runs a program so that neither it nor its folder outlives the process at the other end of standard input.
#
#   sh guard.sh SIGNAL POLLS INPUT FOLDER PROGRAM [ARGUMENT…]
#
# INPUT is what the program reads: `empty`, or `output` when standard output is a socket that is to be read as well.
#
# Standard input is a socket, the lifeline. The program's process id is written to it once the program is about to run.
# When it reaches end-of-file, for whatever reason, the whole process group gets SIGNAL, and the program gets KILL when it
# is still there POLLS tenths of a second later. The exit status is the program's (128 + n when signal n ended it).
signal=$1 polls=$2 input=$3 folder=$4
shift 4
exec 3<&0 </dev/null

# The program gets PATH as it is, while sleep, cat and rm must be found whatever it is.
tools=$PATH:/usr/bin:/bin

# Caught, not ignored: this shell outlives the signal that it sends to its own group, while the program, which starts with
# the default dispositions of caught signals, does not.
trap : HUP INT TERM

# A background job reads from /dev/null, hence the lifeline as a descriptor of its own. The output is closed so that the
# reader of the program's output sees its end when the program ends.
(
    trap '' HUP INT TERM
    while read -r _ <&3; do :; done
    exec 3<&-
    PATH=$tools
    kill -s "$signal" 0
    kill -s CONT 0
    # A frozen child of the program may be in a group of its own, as those of Postgres are. The program waits for it.
    program=$(cat "$folder/pid")
    for stat in /proc/[0-9]*/stat; do
        read -r line <"$stat" || continue
        # The state and the parent follow the name, which is in brackets and may contain brackets.
        rest=${line##*) }
        parent=${rest#* }
        child=${stat#/proc/}
        [ "${parent%% *}" != "$program" ] || kill -s CONT "${child%/stat}"
    done
    while [ "$polls" -gt 0 ]; do
        sleep 0.1
        polls=$((polls - 1))
    done
    kill -s KILL "$program"
) >/dev/null 2>&1 &
watcher=$!

# A program inherits the signals that its starter ignores: nohup ignores SIGHUP, and a job that a script starts in the
# background ignores SIGINT and SIGQUIT. Only env can undo that, and not everywhere.
launcher=
if /usr/bin/env --default-signal=HUP,INT,QUIT true 2>/dev/null; then
    launcher='/usr/bin/env --default-signal=HUP,INT,QUIT'
fi

# The program's input, which is opened this late so that the watcher does not keep the socket open.
case $input in
    output) exec 4<&1 ;;
    *) exec 4</dev/null ;;
esac

# The program runs in the foreground, because a shell starts background jobs with SIGINT ignored. It does not start at all
# when the lifeline is gone already, as the write fails then.
# shellcheck disable=SC2016,SC2086
$launcher /bin/sh -c 'echo "$$" >"$0/pid" && echo "$$" >&0 && exec "$@" <&4 4<&-' "$folder" "$@" <&3 3<&-
status=$?

{
    kill -s KILL "$watcher"
    wait "$watcher"
} 2>/dev/null

PATH=$tools
# Children of a killed program may still be writing into the folder while they notice.
attempts=50
until rm -rf "$folder" 2>/dev/null || [ "$attempts" -eq 0 ]; do
    sleep 0.1
    attempts=$((attempts - 1))
done
exit "$status"
