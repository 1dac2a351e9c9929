"""A pytest plugin for runs over guests (`-p lab.guests.patience`): an emulated processor is a hundred times slower.

Nothing else of a run is changed. Transfers and rounds are fewer and smaller, so that a measurement has many of them
and does not end with half a gigabyte on its way; to start perftest takes a guest as long as a node's whole measurement.
"""

from nodegate.measure.rdma import life as rdma_life
from nodegate.measure.rdma import meeting as rdma_meeting
from nodegate.measure.rdma import station as rdma_station

rdma_meeting.SIZE_BYTES = 64 << 10
rdma_meeting.QUEUE_PAIRS = 2
rdma_meeting.LATENCY_ROUNDS = 200
rdma_meeting.SETUP_S = 12.0  # a link that is cut hangs so long, in each test of each round
rdma_life.LISTEN_S = 30.0
rdma_station.ASK_S = 60.0
