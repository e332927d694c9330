"""Values as people want to see them: bundles of MIME type to bytes."""
import base64
import json
import math
import pprint

JSON_MAX = 4 << 20
METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "application/javascript": "_repr_javascript_",
    "application/json": "_repr_json_",
}
BYTES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")


def plain(value):
    kind = type(value)
    text = repr(value)
    if kind in (dict, list, tuple, set, frozenset) and len(text) > 79:
        return pprint.pformat(value, width=79, sort_dicts=False)
    return text


def as_json(value, depth=0):
    """The value as JSON would hold it; raises TypeError for what JSON cannot."""
    if depth > 32:
        raise TypeError
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [as_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item, depth + 1) for key, item in value.items()}
    if hasattr(type(value), "isoformat"):
        return value.isoformat()
    if type(value).__module__ == "numpy" and hasattr(value, "tolist") and getattr(value, "size", 0) <= 10000:
        return as_json(value.tolist(), depth + 1)
    raise TypeError


def to_bytes(mime, data):
    """Bytes may come as notebooks carry them: in base64."""
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    if isinstance(data, str) and mime in BYTES:
        return base64.b64decode(data)
    if isinstance(data, str):
        return data.encode("utf-8", "replace")
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")


def as_bytes(found):
    return {str(mime): to_bytes(mime, data) for mime, data in found.items()}


def _call(value, name):
    """What a _repr_ method gives; one that is missing or fails gives nothing."""
    method = getattr(type(value), name, None)
    if method is None or isinstance(value, type):
        return None
    data = getattr(value, name)()
    return data[0] if isinstance(data, tuple) else data


def _from_methods(value):
    found = {}
    for mime, name in METHODS.items():
        try:
            data = _call(value, name)
        except Exception:
            continue
        if data is not None:
            found[mime] = data
    return found


def bundle(value, extra=None):
    found = {}
    try:
        found = dict(_call(value, "_repr_mimebundle_") or {})
    except Exception:
        pass
    found = {**_from_methods(value), **found, **(extra(value) if extra else {})}
    if "text/plain" not in found:
        found["text/plain"] = plain(value)
    if "application/json" not in found:
        try:
            text = json.dumps(as_json(value), ensure_ascii=False)
            if len(text) <= JSON_MAX:
                found["application/json"] = text
        except Exception:
            pass
    return as_bytes(found)
