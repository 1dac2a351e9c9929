#!/bin/sh
# Slurm's hooks, by the name that this file is called by (slurm-prolog.sh, slurm-epilog.sh and slurm-healthcheck.sh are
# links to it). In slurm.conf; docs/guide/running.md says what each does:
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
# installed, broken, slow, busy) let the job start and are logged, unless NODEGATE_STRICT=1. nodegate itself drains the
# node before it ends with 1, and ends with 0 where it may not: it observes, or too many nodes were drained just now.
#
# Settings: lines KEY=VALUE of /etc/nodegate/hooks.conf, which is read and never run. A line that is not understood is
# named in the log, and no node is checked or drained until it is corrected, with NODEGATE_STRICT=1 too.
#
#   NODEGATE          the program                             (default /opt/nodegate/bin/nodegate)
#   NODEGATE_NODES    the nodes to check, as shell patterns or Slurm hostlists: gpu*|dgx[01-16]        (default: all)
#   NODEGATE_OPTIONS  options of `nodegate hook`: --fresh 120 --demands /etc/nodegate/demands.yaml
#   NODEGATE_LIMIT_S  seconds that it may take                (default 30; keep it below PrologEpilogTimeout)
#   NODEGATE_STRICT   1: block jobs also when nodegate could not tell
#   NODEGATE_USER     the login that holds nodes with nodegate_hold: its holds are not checked        (default: none)
#   mode              enforce, or observe: drain and resume nothing, hold no job, tell what would be done
#                     (default enforce; deploy/hooks.conf, for new installations, has observe)
#   breaker           percent of a partition that may be drained or resumed within 15 minutes, at least one node
#                     (default 5)
#   gate              on: a node with boards that no run has accepted is unfit, "not passed yet"    (default off)

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:${PATH:-} # Slurm sets almost nothing
export PATH
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONPLATLIBDIR NODEGATE_PROBE_ROOT # root runs no module of slurmd's caller
set -f # patterns are not for the files of the current folder

END="nodegate's hook: ended with"
CONF_LIMIT_S=5
CONF_BYTES=65536    # a larger one is refused
ANSWER_BYTES=4096   # of what the program printed last
MOST_NUMBERS=100000 # of all hostlists together

say() {
    echo "nodegate: $1"
}

note() {
    say "$1"
    timeout 5 logger -t nodegate -p daemon.warning -- "${hook:-hook}: $1" 2>/dev/null
}

# within SECONDS COMMAND...: what it prints, and a last line "$END CODE"; without that line the time was over. What
# waits for a file server cannot be killed, and a child may keep the output open: so nothing here waits for them.
within() {
    seconds=$1
    shift
    {
        {
            timeout -k 5 "$seconds" "$@"
            printf '\n%s %s\n' "$END" "$?"
        } </dev/null 2>&1 &
    } | timeout "$seconds" sed "/^$END /q"
}

unusable() { # WHAT: the settings are not understood, so no node is judged by them
    note "could not tell: $1; no node is checked until this is corrected"
    exit 0
}

unquoted() { # TEXT: to $value, without blanks around it and without the quotes that a shell would remove
    value=${1#"${1%%[![:space:]]*}"}
    value=${value%"${value##*[![:space:]]}"}
    case $value in
    \"*\" | \'*\') value=${value#?} value=${value%?} ;;
    esac
}

setting() { # LINE
    unquoted "$1"
    case $value in
    '' | '#'*) return ;;
    *=*) ;;
    *) unusable "$at is not KEY=VALUE" ;;
    esac
    key=${value%%=*} given=${value#*=}
    unquoted "${key#export[[:space:]]}"
    key=$value
    case $key in
    mode) key=NODEGATE_MODE ;;
    breaker) key=NODEGATE_BREAKER ;;
    gate) key=NODEGATE_GATE ;;
    esac
    unquoted "$given"
    case " $seen " in *" $key "*) unusable "$at: $key is set for the second time" ;; esac
    seen="$seen $key"
    case $key:$value in
    NODEGATE:?*) NODEGATE=$value ;;
    NODEGATE_NODES:?*) NODEGATE_NODES=$value nodes_at="$at: " ;;
    NODEGATE_OPTIONS:*--gate*) unusable "$at: NODEGATE_OPTIONS has --gate, of which runs do not know: write gate = on" ;;
    NODEGATE_OPTIONS:*) NODEGATE_OPTIONS=$value ;;
    NODEGATE:* | NODEGATE_NODES:* | NODEGATE_LIMIT_S:) unusable "$at: $key has no value" ;;
    NODEGATE_LIMIT_S:*[!0-9]* | NODEGATE_LIMIT_S:0*) unusable "$at: NODEGATE_LIMIT_S is not a number of seconds" ;;
    NODEGATE_LIMIT_S:*) NODEGATE_LIMIT_S=$value ;;
    NODEGATE_STRICT:[01]) NODEGATE_STRICT=$value ;;
    NODEGATE_STRICT:*) unusable "$at: NODEGATE_STRICT is neither 0 nor 1" ;;
    NODEGATE_USER:*[!A-Za-z0-9_.-]* | NODEGATE_USER:-* | NODEGATE_USER:) unusable "$at: NODEGATE_USER is not a login" ;;
    NODEGATE_USER:*) NODEGATE_USER=$value ;;
    NODEGATE_MODE:enforce | NODEGATE_MODE:observe) NODEGATE_MODE=$value ;;
    NODEGATE_MODE:*) unusable "$at: mode is neither enforce nor observe" ;;
    NODEGATE_GATE:on | NODEGATE_GATE:off) NODEGATE_GATE=$value ;;
    NODEGATE_GATE:*) unusable "$at: gate is neither on nor off" ;;
    NODEGATE_BREAKER:[1-9] | NODEGATE_BREAKER:[1-9][0-9] | NODEGATE_BREAKER:100) NODEGATE_BREAKER=$value ;;
    NODEGATE_BREAKER:*) unusable "$at: breaker is not a whole percentage from 1 to 100" ;;
    *) unusable "$at: there is no setting of the name $key" ;;
    esac
}

settings() { # FILE
    # shellcheck disable=SC2016 # expanded by that shell
    read_it='[ -e "$1" ] || [ -L "$1" ] || exit 0
size=$(wc -c <"$1") || exit 1
[ "$size" -le "$2" ] || exit 3
cat -- "$1"'
    text=$(within "$CONF_LIMIT_S" sh -c "$read_it" sh "$1" "$CONF_BYTES" | tr -d '\000\r')
    case $text in
    *"$END 0") text=${text%"$END 0"} ;;
    *"$END 3") unusable "$1 is larger than $CONF_BYTES bytes" ;;
    *"$END "*) unusable "$1 cannot be read" ;;
    *) unusable "no answer from the file system of $1 within $CONF_LIMIT_S s" ;;
    esac
    number=0 seen=
    while IFS= read -r line; do
        number=$((number + 1)) at="$1 line $number"
        setting "$line"
    done <<EOF
$text
EOF
    [ "$number" -gt 0 ] || unusable "this shell cannot hold $1: is /tmp full?"
}

decimal() { # DIGITS: to $number, without leading zeros
    number=$1
    while :; do case $number in 0?*) number=${number#0} ;; *) return ;; esac done
}

# with_numbers BEFORE LIST AFTER: adds to $some the patterns BEFORE NUMBER AFTER, for those numbers of LIST (01-16,20)
# with which the name of this node may begin
with_numbers() {
    some='' ranges=$2,
    while [ -n "$ranges" ]; do
        range=${ranges%%,*} ranges=${ranges#*,}
        case $range in
        '' | -* | *- | *-*-* | *????????-* | *-????????*) unusable "$nodes_at[$2] is not a list of numbers" ;;
        esac
        width=0
        case $range in 0?*) width=${range%%-*} width=${#width} ;; esac
        decimal "${range##*-}"
        end=$number
        decimal "${range%%-*}"
        [ "$number" -le "$end" ] || unusable "$nodes_at[$2] is not a list of numbers"
        numbers=$((numbers + end - number + 1))
        [ "$numbers" -le "$MOST_NUMBERS" ] || unusable "$nodes_at[$2]: more than $MOST_NUMBERS names"
        while [ "$number" -le "$end" ]; do
            digits=$number
            while [ "${#digits}" -lt "$width" ]; do digits=0$digits; done
            # shellcheck disable=SC2254 # a pattern
            case $name in $1$digits*) some="$1$digits$3|$some" ;; esac
            number=$((number + 1))
        done
    done
}

# alternatives PATTERN: to $some, the pattern itself, or those of its first hostlist. Brackets are a hostlist if they
# hold several numbers, one of them with more than one digit; otherwise they are the shell's.
alternatives() {
    before='' after=$1 some=$1
    while :; do
        case $after in *\[*) ;; *) return ;; esac
        before=$before${after%%\[*} after=${after#*\[}
        list=${after%%\]*} after=${after#*\]}
        case $list in
        *[!0-9,-]*) ;;
        *[0-9][0-9]*[-,]* | *[-,]*[0-9][0-9]*)
            with_numbers "$before" "$list" "$after"
            return
            ;;
        esac
        before="$before[$list]"
    done
}

check_patterns() { # that NODEGATE_NODES can name a node
    plain=$(printf '%s\n' "$NODEGATE_NODES" | sed -E 's/\[!?[A-Za-z0-9_.,-]+\]/x/g')
    case $plain in
    *[!A-Za-z0-9_.*?\|,[:blank:]-]*) unusable "${nodes_at}NODEGATE_NODES=$NODEGATE_NODES is not a pattern of names" ;;
    *[!\|,[:blank:]]*) ;;
    *) unusable "${nodes_at}NODEGATE_NODES=$NODEGATE_NODES names no node" ;;
    esac
    case $name:$plain in
    *.*:*) ;;
    *:*.\**) unusable "${nodes_at}NODEGATE_NODES=$NODEGATE_NODES: .* asks for a dot in the name (* alone is any text)" ;;
    esac
}

# is_named NAME: whether it is one of NODEGATE_NODES; patterns are separated by | or, outside of [], by , or blanks
is_named() {
    name=$1 numbers=0 one=
    while IFS= read -r rest; do
        while [ -n "$rest" ]; do # a|b inside a variable is not an alternative for `case`
            one=${rest%%|*}
            case $rest in *"|"*) rest=${rest#*|} ;; *) rest= ;; esac
            alternatives "$one"
            if [ "$some" != "$one" ]; then
                rest=$some$rest
                continue
            fi
            # shellcheck disable=SC2254 # a pattern
            case $name in $one) return 0 ;; esac
        done
    done <<EOF
$(printf '%s\n' "$NODEGATE_NODES" | grep -oE '([^][|,[:space:]]|\[[^]]*\])+')
EOF
    [ -n "$one" ] || unusable "this shell cannot hold NODEGATE_NODES: is /tmp full?"
    return 1
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

nodes_at=
settings "${NODEGATE_CONF:-/etc/nodegate/hooks.conf}"
NODEGATE=${NODEGATE:-/opt/nodegate/bin/nodegate}
NODEGATE_LIMIT_S=${NODEGATE_LIMIT_S:-30}
NODEGATE_NODES=${NODEGATE_NODES:-*}
strict=
[ "${NODEGATE_STRICT:-0}" = 1 ] && strict=--strict
rules="${NODEGATE_MODE:+--mode $NODEGATE_MODE} ${NODEGATE_BREAKER:+--breaker $NODEGATE_BREAKER}"
[ "${NODEGATE_GATE:-off}" = on ] && rules="$rules --gate"
rules="$rules ${NODEGATE_USER:+--user $NODEGATE_USER}"
name=$(uname -n)
name=${SLURMD_NODENAME:-${name%%.*}}
check_patterns
short=${name%%.*}
is_named "$name" || { [ "$short" != "$name" ] && is_named "$short"; } || exit 0

# shellcheck disable=SC2086 # the options are words
text=$(within "$NODEGATE_LIMIT_S" "$NODEGATE" hook "$hook" $strict $rules ${NODEGATE_OPTIONS:-} | tail -c "$ANSWER_BYTES")
case $text in
*"$END "*) code=${text##*"$END "} text=${text%"$END "*} ;;
*) code=124 ;;
esac
answer='' last=''
while IFS= read -r line; do # also what it printed on standard error
    case $line in
    fit:* | unfit:* | could\ not\ tell:* | busy:*) answer=$line ;;
    ?*) last=$line ;;
    esac
done <<EOF
$text
EOF

blocks() { # a code other than 0 makes Slurm drain the node
    [ "${NODEGATE_MODE:-enforce}" = observe ] && exit 0
    exit 1
}

# What nodegate prints itself, it has also logged itself.
case $code:$answer in
0:fit:* | 0:unfit:* | 0:could\ not\ tell:* | 0:busy:*)
    say "$answer"
    exit 0
    ;;
1:unfit:*)
    say "$answer"
    blocks
    ;;
2:could\ not\ tell:* | 75:busy:*) say "$answer" ;;
124:*) note "could not tell: no answer from $NODEGATE within $NODEGATE_LIMIT_S s" ;;
*) note "could not tell: no answer from $NODEGATE (exit code $code)${last:+: $last}" ;;
esac
[ -n "$strict" ] && blocks
exit 0
