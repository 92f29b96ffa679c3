"""Reads the findings of a campaign and writes a stand-alone script for one of them.

Input: a campaign's directory. Output: groups of findings, scripts. Runs nothing.
"""
