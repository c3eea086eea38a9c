#!/bin/sh
# Prints the folder for the data of the tests' servers: TMPDIR, if it is set. Otherwise memory that has room for them and runs programs,
# as no data has to outlast its test. Otherwise /tmp.
#
# The tests take a seventh less time in memory. So many servers start that the time of a disk's file system counts.

set -u
folder=/dev/shm
# The tests fill 3.1 GB of it, most of it databases of one server.
room_kib=6291456
memory_kib=12582912

has_room() {
    [ "$(stat -f -c %T "$folder" 2>/dev/null)" = tmpfs ] &&
        [ "$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')" -ge "$room_kib" ] &&
        [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -ge "$memory_kib" ]
}

runs_programs() {
    probe=$(mktemp "$folder/test-folder.XXXXXX" 2>/dev/null) || return 1
    printf '#!/bin/sh\n' >"$probe"
    chmod +x "$probe"
    "$probe" 2>/dev/null
    ran=$?
    rm -f "$probe"
    return "$ran"
}

if [ -n "${TMPDIR:-}" ]; then
    echo "$TMPDIR"
elif has_room && runs_programs; then
    echo "$folder"
else
    echo /tmp
fi
