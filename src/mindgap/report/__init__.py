"""Writes reports for people and for CI systems.

Comes in: a `Report`, or a study. Goes out: a self-contained HTML page, a JUnit XML file. Knows nothing of how
anything was run, and counts nothing: `Report.totals` and a study's tables have every number.
"""

from mindgap.report.junit import junit_xml
from mindgap.report.page import html_page
from mindgap.report.study_html import study_page

__all__ = ["html_page", "junit_xml", "study_page"]
