"""The kinds of mutation, one module each. Input: a graph's data flow and the rule tables. Output: edits, or None."""
