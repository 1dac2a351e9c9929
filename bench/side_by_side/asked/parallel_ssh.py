"""The questions by parallel-ssh: python parallel_ssh.py HOSTS PORT USER KEY QUESTIONS CONNECTIONS.

HOSTS has a line `NAME ADDRESS` for each node. The library verifies no host keys in this mode.
"""

import sys
from pathlib import Path

from pssh.clients import ParallelSSHClient

hosts, port, user, key, questions, connections = sys.argv[1:]
names = {address: name for name, address in map(str.split, Path(hosts).read_text().splitlines())}
client = ParallelSSHClient(
    list(names), port=int(port), user=user, pkey=key, pool_size=int(connections), timeout=60, num_retries=2
)
answers = client.run_command(Path(questions).read_text(), stop_on_errors=False)
client.join(answers)
for answer in answers:
    name = names[answer.host]
    if answer.exception is not None:
        print(f"{name}: FAIL unreachable {answer.exception}")
        continue
    for line in answer.stdout:
        print(f"{name}: {line}")
