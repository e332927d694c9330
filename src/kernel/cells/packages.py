"""Where packages lie that a shell or the server installs, as the sandbox's `python3` looks for them."""
import importlib
import os
import sys

VERSION = f"/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
seen = {}  # when each directory was changed last, as far as this kernel knows


def sites():
    """The directory of PYTHONUSERBASE, where pip installs to, and that of snapshots."""
    kept = os.environ.get("HOME", "") + "/.local"
    base = os.environ.get("PYTHONUSERBASE") or kept
    return [base + VERSION] + ([kept + VERSION] if kept != base else [])


def names():
    """Of the packages and modules that an interpreter would find before the system's own."""
    for place in sites() + os.environ.get("PYTHONPATH", "").split(os.pathsep):
        try:
            found = os.listdir(place) if place else []
        except OSError:
            continue
        yield from (each.partition(".")[0] for each in found)


def find():
    """The kernel's interpreter has started before its environment was known: it looks where one that
    starts now would. Directories that are not there yet count too, a shell may make them."""
    missing = [place for place in sites() if place not in sys.path]
    at = next((i for i, path in enumerate(sys.path) if path.endswith(("/dist-packages", "/site-packages"))),
              len(sys.path))
    sys.path[at:at] = missing
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [place for place in named if place and place not in sys.path]
    if site := sys.modules.get("site"):
        site.USER_BASE, site.USER_SITE = sites()[0].removesuffix(VERSION), sites()[0]
    look()


def look():
    """Before each cell: what was installed since the last one is found, also by its .pth files."""
    for place in sites():
        try:
            changed = os.stat(place).st_mtime_ns
        except OSError:
            continue
        if seen.get(place) == changed:
            continue
        seen[place] = changed
        importlib.invalidate_caches()
        try:
            import site
            site.addsitedir(place)
        except Exception:
            pass  # a .pth file can hold anything
