#!/bin/sh
# Slurm's TaskProlog: whether the port at which the ranks of this job will meet is free. In slurm.conf:
#
#   TaskProlog=/opt/nodegate/deploy/slurm-task-prolog.sh
#
# It runs as the user of the job, whose MASTER_PORT no prolog can know. Where another program listens on it, the step
# ends at once with this line in its output, and the node stays as it is. Nothing else ends a step.
[ -n "${MASTER_PORT:-}" ] && [ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
taken=$(timeout 30 "${NODEGATE:-/opt/nodegate/bin/nodegate}" bootcheck -v 2>/dev/null |
    grep -m 1 ": port $MASTER_PORT: another program listens") || exit 0
echo "print nodegate: $taken"
exit 1
