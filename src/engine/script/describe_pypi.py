"""Runs in the sandbox of a snapshot's build, behind pip: python3 - PACKAGE...

Prints one line of JSON for each package: its version, its modules and whether they can be imported.
"""
import importlib.metadata
import json
import subprocess
import sys


def modules_of(dist):
    named = (dist.read_text("top_level.txt") or "").split()
    if not named:
        tops = (file.parts[0] for file in dist.files or [] if file.suffix in (".py", ".so"))
        named = sorted({top.split(".")[0] for top in tops})
    return [name for name in named if name.isidentifier() and not name.startswith("_")][:4]


def describe(name):
    about = {"package": f"pypi:{name}"}
    try:
        dist = importlib.metadata.distribution(name)
        about["version"] = dist.version
        modules = modules_of(dist)
        if modules:
            about["module"] = modules[0]
        code = "".join(f"import {module}\n" for module in modules)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        about["importable"] = ran.returncode == 0
        if ran.returncode != 0:
            about["reason"] = (ran.stderr.strip().splitlines() or ["it failed"])[-1][:200]
    except Exception as error:
        about["reason"] = f"{type(error).__name__}: {error}"[:200]
    return about


for each in sys.argv[1:]:
    print(json.dumps(describe(each)), flush=True)
