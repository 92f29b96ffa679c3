"""Names Inductor's passes, as `torch._inductor.config.disabled_passes` takes them. As a module, prints them."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: How its sources name a pass: `GraphTransformObserver(gm, "remove_noop_ops")`, `pass_name="b2b_gemm_pass"`.
_NAMED: Final = re.compile(r'(?:GraphTransformObserver\(\s*[\w.]+,(?:\s*#.*\n)?\s*f?|pass_name=\s*f?)"([\w{}]+)"')
#: The lists of which `pass_pattern_0`, … are the passes.
_PATTERNS: Final = re.compile(r"^pass_patterns = \[(.*?)^\]", re.DOTALL | re.MULTILINE)


def inductor_passes() -> list[str]:
    """Names them as the sources of the PyTorch on the path do, which is not imported."""
    spec = find_spec("torch")
    folder = Path(spec.origin or "").parent / "_inductor" / "fx_passes" if spec is not None else Path()
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.py")))
    most = max((each.count("PatternMatcherPass(") for each in _PATTERNS.findall(text)), default=0)
    named = ([name.replace("{i}", str(i)) for i in range(most if "{" in name else 1)] for name in _NAMED.findall(text))
    return [*dict.fromkeys(each for names in named for each in names)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(inductor_passes()))
