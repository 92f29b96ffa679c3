"""Runs the blocks of a campaign on a Ray cluster.

Input: a plan, a case source, the address of a cluster. Output: the rows of blocks, committed to a store that all nodes
reach. Ray places tasks, queues them, repeats those of a lost node and moves objects. `node.py` is
the part of a node, one actor; `tasks.py` are the tasks; `judged_block.py` judges a block and writes its rows;
`cluster_driver.py` is the driver. Must not know pages.
"""
