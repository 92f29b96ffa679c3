"""Makes the tables of a porting study in the form of The Grand Illusion (arXiv 2309.07181).

Comes in: a `PortingStudy`, read from its file. Goes out: tables of classes, reasons and slow-downs, and what
holds of the paper's statements. Runs nothing.
"""
