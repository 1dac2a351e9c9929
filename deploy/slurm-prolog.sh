#!/bin/sh
# Slurm prolog: may this node take the job? In slurm.conf: Prolog=/opt/nodegate/deploy/slurm-prolog.sh
#
# A prolog that exits non-zero drains the node and holds the job. So only a verdict on the hardware does that: exit
# code 1 together with the word "unfit", since a broken interpreter exits with 1 too. Our own faults (not installed,
# broken, slow, busy) let the job start and are logged, unless NODEGATE_STRICT=1.
#
#   NODEGATE          the program            (default /opt/nodegate/bin/nodegate)
#   NODEGATE_LIMIT_S  seconds it may take    (default 30; keep it below PrologEpilogTimeout)
#   NODEGATE_STRICT   1: hold the job also when nodegate could not tell

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin # Slurm sets none
export PATH
NODEGATE=${NODEGATE:-/opt/nodegate/bin/nodegate}
NODEGATE_LIMIT_S=${NODEGATE_LIMIT_S:-30}

answer=$(timeout -k 5 "$NODEGATE_LIMIT_S" "$NODEGATE" bootcheck </dev/null)
code=$?

case $code:$answer in
0:fit:*) exit 0 ;;
1:unfit:*) held=1 ;;
*) held=${NODEGATE_STRICT:-0} ;;
esac

line="nodegate: ${answer:-could not tell: no answer from $NODEGATE within $NODEGATE_LIMIT_S s (exit code $code)}"
echo "$line"
logger -t nodegate -- "$line" 2>/dev/null
[ "$held" = 1 ] && exit 1
exit 0
