"""The pipeline of one graph on one platform: run, compare, judge, record.

Comes in: a graph and the outcomes of the reference and of a platform. Goes out: a `mindgap.results` row.
1. run: `RunContext.run` executes the graph on a platform.
2. compare: `compare_outcomes` decides from statuses and digests alone, where it can.
3. judge: `GraphComparison.decide` fetches whole outputs and asks `mindgap.judge.trace`, where it cannot.
4. record: `mindgap.results.recording.Recording` writes the row into a store.
`diff`, `metamorphic`, campaigns and re-judging share these steps. Must not know who asks,
nor how workers are scheduled.
"""
