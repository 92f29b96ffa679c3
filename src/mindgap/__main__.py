"""`python -m mindgap`; and `python -m mindgap worker`, which a `[hosts.NAME]` of another machine starts here."""

import os
import runpy
import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        # By its file: to import its package takes what a worker needs, and what is missing is to be named.
        runpy.run_path(
            os.path.join(os.path.dirname(__file__), "platforms", "environments", "host_worker.py"), run_name="__main__"
        )
    else:
        from mindgap.cli import main

        sys.exit(main())
