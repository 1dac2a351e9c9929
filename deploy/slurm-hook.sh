#!/bin/sh
# Slurm's hooks, by the name that this file is called by (slurm-prolog.sh, slurm-epilog.sh and slurm-healthcheck.sh are
# links to it). In slurm.conf; docs/running.md says what each does:
#
#   Prolog=/opt/nodegate/deploy/slurm-prolog.sh
#   PrologFlags=Alloc
#   Epilog=/opt/nodegate/deploy/slurm-epilog.sh
#   HealthCheckProgram=/opt/nodegate/deploy/slurm-healthcheck.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
#
# A prolog or epilog that exits non-zero drains the node. So only a verdict on the hardware does that: exit code 1
# together with the word "unfit", since a broken interpreter exits with 1 too. Failures of nodegate itself (not
# installed, broken, slow, busy) let the job start and are logged, unless NODEGATE_STRICT=1.
#
# Settings: lines KEY=VALUE of /etc/nodegate/hooks.conf, which is read and never run.
#
#   NODEGATE          the program                             (default /opt/nodegate/bin/nodegate)
#   NODEGATE_NODES    the nodes to check, as a shell pattern: gpu*|dgx*        (default: all)
#   NODEGATE_OPTIONS  options of `nodegate hook`: --fresh 120 --baseline /etc/nodegate/site.yaml
#   NODEGATE_LIMIT_S  seconds that it may take                (default 30; keep it below PrologEpilogTimeout)
#   NODEGATE_STRICT   1: block jobs also when nodegate could not tell

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:${PATH:-} # Slurm sets almost nothing
export PATH

conf=${NODEGATE_CONF:-/etc/nodegate/hooks.conf}
if [ -r "$conf" ] && [ -f "$conf" ]; then
    while IFS='=' read -r key value || [ -n "$key" ]; do
        case $key in
        NODEGATE) NODEGATE=$value ;;
        NODEGATE_NODES) NODEGATE_NODES=$value ;;
        NODEGATE_OPTIONS) NODEGATE_OPTIONS=$value ;;
        NODEGATE_LIMIT_S) NODEGATE_LIMIT_S=$value ;;
        NODEGATE_STRICT) NODEGATE_STRICT=$value ;;
        esac
    done <"$conf"
fi
NODEGATE=${NODEGATE:-/opt/nodegate/bin/nodegate}
NODEGATE_LIMIT_S=${NODEGATE_LIMIT_S:-30}
strict=
[ "${NODEGATE_STRICT:-0}" = 1 ] && strict=--strict

say() {
    echo "nodegate: $1"
}

note() {
    say "$1"
    timeout 5 logger -t nodegate -p daemon.warning -- "${hook:-hook}: $1" 2>/dev/null
}

case ${0##*/} in
*prolog*) hook=slurm-prolog ;;
*epilog*) hook=slurm-epilog ;;
*health*) hook=slurm-healthcheck ;;
*)
    note "could not tell: called as $0, which is not the name of a hook"
    exit 0
    ;;
esac

name=${SLURMD_NODENAME:-$(hostname -s)}
rest=${NODEGATE_NODES:-*}
ours=
while [ -n "$rest" ]; do # a|b inside a variable is not an alternative for `case`
    # shellcheck disable=SC2254 # a pattern
    case $name in ${rest%%|*}) ours=1 ;; esac
    case $rest in *"|"*) rest=${rest#*|} ;; *) rest= ;; esac
done
[ -n "$ours" ] || exit 0

set -f # the options are words, not patterns
# shellcheck disable=SC2086
answer=$(timeout -k 5 "$NODEGATE_LIMIT_S" "$NODEGATE" hook "$hook" $strict ${NODEGATE_OPTIONS:-} </dev/null)
code=$?

# What nodegate prints itself, it has also logged itself.
case $code:$answer in
0:fit:* | 0:unfit:* | 0:could\ not\ tell:* | 0:busy:*)
    say "$answer"
    exit 0
    ;;
1:unfit:*)
    say "$answer"
    exit 1
    ;;
2:could\ not\ tell:* | 75:busy:*) say "$answer" ;;
124:) note "could not tell: no answer from $NODEGATE within $NODEGATE_LIMIT_S s" ;;
137:) note "could not tell: no answer from $NODEGATE within $NODEGATE_LIMIT_S s, or it was killed" ;;
*) note "${answer:-could not tell: no answer from $NODEGATE} (exit code $code)" ;;
esac
[ -n "$strict" ] && exit 1
exit 0
