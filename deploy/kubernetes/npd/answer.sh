#!/bin/sh
# For node-problem-detector: 0 is well, 1 a problem, all else is not known. nsenter too ends with 1 where it fails, so
# the answer itself must say so.
nodegate=/opt/nodegate/bin/nodegate
said=$(nsenter -t 1 -m -u -i -n -p -- "$nodegate" bootcheck 2>/dev/null)
code=$?
case $code:$said in
0:fit*) ;;
1:unfit*) ;;
*) code=2 ;;
esac
echo "${said:-could not tell: $nodegate did not start on the node}"
exit $code
