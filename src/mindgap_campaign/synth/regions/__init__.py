"""Cuts regions out of captured graphs, runs each once, and keeps the good ones in a pool.

Input: graphs. Output: regions (graphs of at most 50 nodes that ran, with statistics of their border values). Knows no
platform but PyTorch on the CPU, and no store.
"""
