"""Rule tables (TOML, beside the code that reads them) and what is made of them.

An engineer extends mindgap's mutations by rows of `alike.toml`, `equivalent.toml`, `identities.toml`,
`attributes.toml` and `operators.toml`; no code changes. Every row is checked against PyTorch's schemas when the tables
are read.
"""

from mindgap.synth.mutation.rules.alike import Member, OperatorGroup
from mindgap.synth.mutation.rules.attributes import AttributeRule
from mindgap.synth.mutation.rules.equivalent import EquivalentRule
from mindgap.synth.mutation.rules.identities import IdentityRule
from mindgap.synth.mutation.rules.language import RuleError
from mindgap.synth.mutation.rules.tables import Rules, load, read

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
