"""Runs a model over a dataset on several platforms, and keeps what it predicts for each sample.

Comes in: the graph of a model, and of other forms of it (bfloat16, int8); a dataset, which a process of its own reads;
names of platforms. Goes out: truths, predictions, flips and near ties (`mindgap_studies.results.predictions`), into a
store. Outputs are not kept. Must not know: tables and pages."""
