"""Runs in a sandbox of the configuration's snapshot: PACKAGES is a list of npm names and pypi:NAME.

Writes /workspace/docs.bin, the form of search/collected.h, with README, docs/, declarations and docstrings.
Nothing of the packages is executed.
"""
import ast
import importlib.metadata
import os
import struct

TOTAL_MAX = 12 << 20
FILE_MAX = 1 << 20
PATH_MAX = 512
LEFT = [TOTAL_MAX]
ENDS = (".md", ".mdx", ".markdown", ".rst", ".d.ts", ".d.mts", ".html", ".htm")


def take(pages, path, text):
    try:
        path, body = path.encode(), text.encode()
    except UnicodeEncodeError:
        return
    size = len(path) + len(body) + 12
    is_line = len(path) <= PATH_MAX and min(path) >= 32 and 127 not in path
    if is_line and text.strip() and len(body) <= 4 << 20 and size <= LEFT[0]:
        LEFT[0] -= size
        pages.append((path, body))


def read(path):
    try:
        if os.path.islink(path) or os.path.getsize(path) > FILE_MAX:
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read().replace("\0", "")
    except (OSError, UnicodeDecodeError):
        return ""


def npm(name):
    root, pages, found = os.path.join("/node_modules", name), [], []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if each != "node_modules" and not each.startswith("."))
        for each in files:
            path = os.path.relpath(os.path.join(folder, each), root)
            is_docs = path.startswith("docs/") or os.sep not in path
            if each.endswith((".d.ts", ".d.mts")) or (is_docs and each.endswith(ENDS)):
                found.append(path)
    # What people wrote comes first, declarations fill the rest.
    for path in sorted(found, key=lambda each: (each.endswith(".ts") or each.endswith(".mts"), each)):
        take(pages, path, read(os.path.join(root, path)))
    return pages


def signature(node):
    return f"{node.name}({ast.unparse(node.args)})" if hasattr(node, "args") else node.name


def docstrings(text, module):
    parts = []
    tree = ast.parse(text)
    if ast.get_docstring(tree):
        parts.append(ast.get_docstring(tree))

    def walk(node, prefix):
        for child in getattr(node, "body", []):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not child.name.startswith("_"):
                about = ast.get_docstring(child)
                if about:
                    kind = "class" if isinstance(child, ast.ClassDef) else "def"
                    parts.append(f"## {prefix}{child.name}\n\n`{kind} {signature(child)}`\n\n{about}")
                if isinstance(child, ast.ClassDef):
                    walk(child, f"{prefix}{child.name}.")

    walk(tree, "")
    return f"# {module}\n\n" + "\n\n".join(parts) if parts else ""


def pypi(name):
    pages = []
    dist = importlib.metadata.distribution(name)
    about = dist.metadata.get_payload() or dist.metadata.get("Description") or ""
    take(pages, "README.md", about if isinstance(about, str) else "")
    for file in sorted(dist.files or [], key=str):
        path = str(file)
        if file.suffix != ".py" or "/tests/" in f"/{path}" or "/_" in path.replace("/__init__", ""):
            continue
        try:
            module = path[:-3].replace("/", ".").removesuffix(".__init__")
            take(pages, f"{path}.md", docstrings(read(str(file.locate())), module))
        except (SyntaxError, ValueError, RecursionError):
            continue
    return pages


def describe(package):
    try:
        return pypi(package[5:]) if package.startswith("pypi:") else npm(package)
    except Exception:
        return []


with open("/workspace/docs.bin", "wb") as out:
    out.write(b"SGDOCS1\n")
    for number, package in enumerate(PACKAGES):
        for path, body in describe(package):
            out.write(struct.pack("<III", number, len(path), len(body)) + path + body)
