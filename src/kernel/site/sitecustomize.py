"""Run by every Python of a sandbox when it starts (PYTHONPATH names its directory).

`pip install` writes to PYTHONUSERBASE; packages of a snapshot lie in ~/.local, where Python does not
look then. A virtual environment has what was installed into it, and nothing else.
"""
import os
import site
import sys

if sys.prefix == sys.base_prefix and site.ENABLE_USER_SITE:
    _kept = f"/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    _kept = os.path.expanduser("~") + _kept
    if _kept != site.USER_SITE and os.path.isdir(_kept):
        _count = len(sys.path)
        site.addsitedir(_kept)
        # Before the system's packages, behind those of PYTHONUSERBASE.
        _found, sys.path[_count:] = sys.path[_count:], []
        _at = next((i for i, path in enumerate(sys.path) if path.endswith("/dist-packages")), _count)
        sys.path[_at:_at] = _found
