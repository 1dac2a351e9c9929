"""Transports: how programs are run on a node, with time limits and without leaving anything behind."""

from nodegate.transport.connect import connect
from nodegate.transport.options import Options
from nodegate.transport.session import Busy, NodeLock, Output, Session

__all__ = ["Busy", "NodeLock", "Options", "Output", "Session", "connect"]
