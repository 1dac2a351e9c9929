"""The labels before a log line's text, in the forms of launchers, collectors of logs, containers and programs.

One row a form. A time of day, an address, a line number, a process or the number of a record is never a rank.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import re

HOST = r"[A-Za-z0-9](?:[\w-]{0,62})(?:\.[A-Za-z0-9-]{1,63}){0,6}"
_COLOUR = r"(?:\x1b\[[0-9;]{0,8}m)?"
_TIME = (
    r"(?:[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?: ?Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|[0-9]{4}年[0-9]{1,2}月[0-9]{1,2}日 {0,2}[0-9]{2}[:：][0-9]{2}[:：][0-9]{2}(?:[.,][0-9]{1,9})?)"
)
_DAY = r"[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"  # a time of day without its date
_LEVEL = r"(?:\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?:? {1,6})?"
TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9](?:[.,][0-9]{1,9})?)")
_NODE = r"[a-z][a-z0-9]{0,30}(?:-[a-zA-Z0-9]{1,30}){0,6}(?:\.[a-z0-9-]{1,63}){0,6}"
_WORKER = r"[a-z][a-z0-9_.-]{0,80}?[-_]?[0-9]{1,6}(?:-[a-z0-9]{5})?"
_PROCESS = r"[\w./()-]{1,60}"
_N = r"[0-9]{1,7}"
# What can be before the text, one after the other, in any order and number.
PREFIX = re.compile(
    # Open MPI, PRRTE (its own host first, then perhaps the rank's), Horovod
    rf"(?P<mpi>\[(?:(?:[\w.-]{{1,200}}@)?[0-9]{{1,6}},)?(?P<mpi_rank>{_N})\](?:\[(?P<mpi_node>{HOST}):[0-9]{{1,10}}\])?"
    r"<std(?:out|err|diag)>: ?)"
    rf"|(?P<tagged>\[rank(?P<rank>{_N})\]:? ?)"
    r"|(?P<default>\[(?:default|local[_ ]?rank ?)(?P<local>[0-9]{1,4})\]:? ?)"
    rf"|(?P<clock>{_LEVEL}\[?{_CLOCK}\]? (?=\S))"
    rf"|(?P<numbered> {{0,6}}(?P<task>{_N}): ?(?![0-9]{{2}}[:：][0-9]{{2}}))"
    rf"|(?P<time>(?:[A-Z][a-z]{{2}} )?\[?{_TIME}\]?(?: [A-Z]{{3,5}}(?= \S{{1,100}} \S{{1,60}}: ))?[ \t](?=\S))"
    r"|(?P<seconds>\[? {0,5}[0-9]{1,10}\.[0-9]{3,9}\]? (?=\S))"  # since 1970, or since the machine booted
    rf"|(?P<rfc5424><[0-9]{{1,3}}>1 {_TIME} (?P<rfc5424_host>{HOST}) {_PROCESS} \S{{1,128}} \S{{1,32}} "
    r"(?:-|\[[^\]\n]{0,200}\]) )"
    r"|(?P<priority><[0-9]{1,3}>)"
    r"|(?P<colour>\x1b\[[0-9;]{0,8}m)"
    r"|(?P<cri>std(?:out|err) [FP] )"
    rf"|(?P<pod>\[pod/(?P<pod_name>{HOST})(?:/[\w.-]{{1,100}})?\] )"
    # Ray, vLLM, NeMo RL; of SkyPilot's (worker1, rank=1, pid=7) the rank counts nodes
    rf"|(?P<ray>{_COLOUR}\((?:(?:head|worker[0-9]{{1,5}}), rank={_N}, )?"
    rf"(?:[\w.]{{0,60}}(?:[ \[]rank=(?P<ray_rank>{_N})\]?)? ?pid=[0-9]{{1,10}}|raylet)"
    rf"(?:, ip=(?P<ray_ip>[0-9a-f.:]{{3,45}}))?\){_COLOUR} )"
    rf"|(?P<swarm>[\w-]{{1,60}}\.[0-9]{{1,5}}\.[a-z0-9]{{10,25}}@(?P<swarm_node>{HOST}) {{1,30}}\| )"
    rf"|(?P<compose>(?P<compose_name>{_WORKER}) {{1,30}}\| )"
    rf"|(?P<tag>\[(?P<tag_name>(?:[a-z][a-z0-9]{{0,30}}-){{0,4}}"
    r"(?:worker|pod|node|host|master|launcher|task|trainer|actor)[-_ ]?[0-9]{1,6})\]:? )"
    rf"|(?P<syslog>{_DAY} (?P<syslog_host>{HOST}) (?={_PROCESS}(?:\[[0-9]{{1,9}}\])?: ))"
    rf"|(?P<service>(?P<service_host>{HOST}) (?={_PROCESS}\[[0-9]{{1,9}}\]: |kernel: ))"
    rf"|(?P<process>{_PROCESS}\[[0-9]{{1,9}}\]: )"
    rf"|(?P<day>(?:[A-Z][a-z]{{2}} )?{_DAY}(?: [0-9]{{4}})?(?: (?=\S)|(?=\[)))"
    r"|(?P<address>(?P<pdsh_ip>(?:[0-9]{1,3}\.){3}[0-9]{1,3}): (?=\S))"
    # pdsh, clush; HPE's mpiexec with the rank behind the host; GNU parallel; OLMo with a local rank
    rf"|(?P<pdsh>(?P<pdsh_node>{_NODE})(?:(?: (?P<pals_rank>{_N}))?: (?=\S)|(?::(?P<tab_local>[0-9]{{1,4}}))?\t))"
)
NODE_GROUPS = (
    *("mpi_node", "ray_ip", "pdsh_node", "syslog_host"),
    *("service_host", "rfc5424_host", "swarm_node", "pdsh_ip"),
)
RANK_GROUPS = ("mpi_rank", "rank", "task", "ray_rank", "pals_rank")
LOCAL_GROUPS = ("local", "tab_local")
LABEL_CHARACTERS = 200
# The word, not of another numbering (local_rank, LoRA's, a group's), and not of a rank that a sentence is about.
_OTHERS = ("Local", "local", "node", "group", "LoRA", "from", "for", "peer", "to", "of", "by", "with", "remote", "root")
_RANK = (
    rf"(?:(?<![A-Za-z_])|(?<=global_)){''.join(f'(?<!{word} )' for word in _OTHERS)}(?<![tdpecTDPEC][pP] )"
    r"[Rr](?:ank|ANK)"
)
_NUMBER = rf"[ _:=#-]{{0,2}}({_N})(?:/[0-9]{{1,7}})?"
_CLOSED = "\\[\\](){}<>【】\\n"
# Levels, names of modules, anything in brackets: no words of a sentence, which may name another rank.
_NO_WORDS = (
    r"^(?:(?:[A-Z]{4,8}\b|\[[^\]\n]{0,80}\]|[-|:>*#]{1,3}"
    r"|(?!\w{0,50}(?:Error|Exception|Warning)\b)[\w.]{1,60}:)[ \t:]{0,4}){0,6}"
)
# A rank that labels the line behind whatever comes before it: a level, an address, an own time.
LABEL = re.compile(
    "|".join(
        (
            rf"[\[({{<【](?!PG )[^{_CLOSED}]{{0,120}}?{_RANK}{_NUMBER}(?![0-9\w])[^{_CLOSED}]{{0,80}}[\])}}>】]:? ?",
            rf"{_NO_WORDS}{_RANK}{_NUMBER}(?: ?[:|｜\]\[] ?| - (?=\S)| (?=[\w.]{{1,60}}:))",
            rf"\b{_RANK}[ _:=]?({_N}) ?(?:\| |- (?=\S))",
            rf"^(?:RANK_|{_RANK} ?)({_N}): ",  # Hydra's pattern, prints
            # behind the position in the source that ends a prefix of glog, and perhaps a host
            rf"\.(?:cc|cpp|cu|h|py):[0-9]{{1,6}}\] (?:[\w.-]{{0,60}}[0-9] )?{_RANK}{_NUMBER}: ",
            rf": rank({_N})\[[0-9]{{1,10}}\]\[\w{{1,60}}\]: ",  # Composer
            rf"^- ({_N}) - [\w.]{{1,80}} - [\w.]{{1,80}}:[0-9]{{1,6}} - [A-Z]{{4,8}} :: ",  # Levanter
            rf"^TP({_N})(?: EP[0-9]{{1,7}})?\] ",  # SGLang: the only kind of rank that it has
            rf"\bglobal[ _]rank[:=] ?\[?({_N})(?:/[0-9]{{1,7}}\])?",
            rf"\bGlobal Rank: ?\[?({_N})(?:/[0-9]{{1,7}}\])?",
            rf"^\[({_N})\]: ",
            rf"^\[({_N})\] (?![\s\d\[+-]|[\w.*-]{{1,200}}: \[)",  # Hydra; not a shell's job, a record, a host's turn
            rf"\bmpirank:({_N})\b[^>\n]{{0,80}}> ?:?",
            rf"^\[(?:trainer|role_)({_N})\|[0-9]{{1,4}}\]: ?",
        )
    )
)
# A rank among the fields of a line of its own form (logfmt, structlog): its text may come before it.
FIELD = re.compile(
    rf"\b(?:level|lvl|severity)=['\"]?\w{{3,9}}['\"]? (?:[\w.]{{1,40}}=\S{{1,60}} ){{0,6}}rank=['\"]?({_N})\b"
    rf"|^\[(?:debug|info|warning|error|critical) {{0,5}}\] .{{1,170}}\brank=({_N})(?= [\w.]{{1,40}}=|\s{{0,4}}$)"
)
_NCCL = re.compile(rf"(?P<node>{HOST}):(?P<pid>[0-9]{{1,10}}):(?P<tid>[0-9]{{1,10}}) \[(?P<gpu>[0-9]{{1,3}})\] ")
_MEGATRON = re.compile(rf"\bRank (?P<rank>{_N}),(?: node (?P<node>{HOST}),)? device (?P<gpu>[0-9]{{1,3}})\b")
# What names a rank, node or GPU in the text itself; the first that fits.
SAYS_PLACE = (
    _NCCL,
    _MEGATRON,
    *(
        re.compile(form)
        for form in (
            rf"\bnode=(?P<node>{HOST}) device=(?P<gpu>[0-9]{{1,3}}) jobID=\S{{1,40}} rank=(?P<rank>{_N}) ",  # Megatron
            rf"error: Node failure on (?P<node>{HOST})",
            rf"srun: error: (?P<node>{HOST}): tasks? (?P<rank>{_N})",
            rf"^\[(?P<node>{HOST}):[0-9]{{5,10}}\] ",  # Open MPI
            rf"\[(?P<node>{HOST}):mpi_rank_(?P<rank>{_N})\]",  # MVAPICH2
            rf"(?:^|\] {{1,3}})\[(?P<node>{HOST}):[0-9]{{1,10}} {{0,3}}:[0-9]{{1,10}}(?::[0-9]{{1,10}})?\] ",  # UCX
            rf"^\[[0-9]{{1,6}}\] {_CLOCK} \[(?:FAILURE|SUCCESS)\] (?P<node>{HOST})",  # parallel-ssh
            rf"process rank (?P<rank>{_N}) with PID [0-9]{{1,10}} on node (?P<node>{HOST})",
            rf"MPI_ABORT was invoked on rank (?P<rank>{_N})",
            rf"Task launch for \S{{1,60}} failed on node (?P<node>{HOST})",
            r"\bip: (?P<node>[0-9a-fA-F.:]{3,45}) has been marked dead",
        )
    ),
)
# Of a process group other than the first it is a rank within that group.
IN_BRACKETS = re.compile(
    r"(?:\[(?:PG (?:ID )?0 [^\]\n]{0,120}|PG [^\]\n]{0,120}default_pg[^\]\n]{0,8} )?[Rr]ank "
    rf"|\[RankMonitorServer:|\bon rank )(?P<rank>{_N})(?:\]| at iteration)"
)
