"""Sends prompts to a server of a language model, and compares its answers under load with those without.

Comes in: an address, prompts. Goes out: answers, and where they part. Must not know how the server runs the model.
"""
