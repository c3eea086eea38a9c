#!/bin/sh
# Installs Debian packages, as root, and starts no service: a demo must leave no Postgres server that runs from now on.
#
#   scripts/apt-install.sh PACKAGE...
set -eu

# Packages ask this file whether they may start a service. A file that is there already stays in force.
policy=/usr/sbin/policy-rc.d
# The package of a Postgres server reads it, and makes no database cluster that would start with the machine.
clusters=/etc/postgresql-common/createcluster.d

clean() {
    [ -z "$own_policy" ] || rm -f "$policy"
    rm -f "$clusters/seckill.conf"
    rmdir "$clusters" 2>/dev/null || true
}

run() {
    printf '+ %s\n' "$*" >&2
    "$@"
}

own_policy=
trap clean EXIT
trap 'exit 130' HUP INT TERM
if ! [ -e "$policy" ] || grep -q seckill "$policy"; then
    own_policy=yes
    # If this process is killed, its policy ends with it.
    printf '#!/bin/sh\n# Of the seckill lab.\n[ ! -d /proc/%s ] || exit 101\n' "$$" >"$policy"
    chmod +x "$policy"
fi
mkdir -p "$clusters"
echo 'create_main_cluster = false' >"$clusters/seckill.conf"

export DEBIAN_FRONTEND=noninteractive
run apt-get update
run apt-get install --yes --no-install-recommends "$@"
