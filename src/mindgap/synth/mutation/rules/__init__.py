"""Rule tables (TOML, beside the code that reads them) and what is made of them.

An engineer extends mindgap's mutations by rows of `alike.toml`, `equivalent.toml`, `identities.toml`,
`attributes.toml` and `operators.toml`; no code changes. Every row is checked against PyTorch's schemas when the tables
are read.
"""

from mindgap.synth.mutation.rules.alike import Group, Member
from mindgap.synth.mutation.rules.attributes import Attribute
from mindgap.synth.mutation.rules.equivalent import Equivalent
from mindgap.synth.mutation.rules.identities import Identity
from mindgap.synth.mutation.rules.language import RuleError
from mindgap.synth.mutation.rules.tables import Rules, load, read

__all__ = ["Attribute", "Equivalent", "Group", "Identity", "Member", "RuleError", "Rules", "load", "read"]
