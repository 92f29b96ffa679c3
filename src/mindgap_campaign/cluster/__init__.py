"""Connects to a Ray cluster, packs the messages of its nodes, explains lost tasks, and captures models there.

Input: the address of a cluster; the sources of a catalogue. Output: a connection; the result of each source.
`connection.py` connects and reads the resources of nodes; `messages.py` packs messages; `capture_task.py` runs on a
node that captures, and `capture_place.py` is the driver. Must not know campaigns.
"""

from typing import Final

#: The namespace of mindgap's actors.
NAMESPACE: Final = "mindgap"
#: How often Ray repeats a task whose node or process was lost.
RETRIES: Final = 3
#: Seconds after which all processes of such a node have ended.
SHUTDOWN_S: Final = 5.0
