"""Reads the rule tables of mutation (TOML files next to this code).

Rows of `alike.toml`, `equivalent.toml`, `identities.toml`, `attributes.toml` and `operators.toml` extend mutation
without code. Every row is checked against PyTorch's schemas when the tables are read.
docs/synthesis.md shows one.
"""

from mindgap_campaign.synth.mutation.rules.alike import Member, OperatorGroup
from mindgap_campaign.synth.mutation.rules.attributes import AttributeRule
from mindgap_campaign.synth.mutation.rules.equivalent import EquivalentRule
from mindgap_campaign.synth.mutation.rules.identities import IdentityRule
from mindgap_campaign.synth.mutation.rules.language import RuleError
from mindgap_campaign.synth.mutation.rules.tables import Rules, load, read

__all__ = [
    "AttributeRule",
    "EquivalentRule",
    "IdentityRule",
    "Member",
    "OperatorGroup",
    "RuleError",
    "Rules",
    "load",
    "read",
]
