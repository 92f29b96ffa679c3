"""The faults of `faulty/eager`: what a file of them may say, where one strikes, and what it does.

`schema` is read in the parent process and imports no framework; `strike` and `damage` run in a worker.
"""
