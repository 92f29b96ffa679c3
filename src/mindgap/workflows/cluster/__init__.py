"""Knows a Ray cluster: how it is reached, what its nodes send, what a lost task means; and captures models there.

Input: the address of a cluster; the sources of a catalogue. Output: a connection; what became of each source.
`connection.py` connects and reads what nodes have; `messages.py` packs what is sent; `capture_task.py` is what a node
does for a catalogue, and `capture_place.py` its driver. Must not know campaigns.
"""

from typing import Final

#: The namespace of mindgap's actors.
NAMESPACE: Final = "mindgap"
#: How often Ray repeats a task whose node or process was lost.
RETRIES: Final = 3
#: How the message of a process begins that another one killed, as the processes of a node that shuts down are.
KILLED_FROM_OUTSIDE: Final = ("killed by SIGTERM", "killed by SIGKILL")
#: Seconds after which all processes of such a node have ended.
SHUTDOWN_S: Final = 5.0
