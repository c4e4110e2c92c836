#!/usr/bin/python3
"""Makes the types and calls of REST in python/muster from OpenAPI.

    tools/python_api.py [--check] [DOCUMENT]     DOCUMENT: openapi.json; by default what build/tests/openapi_print prints

Writes python/muster/api_types.py and python/muster/api.py. --check compares instead, and exits with 1 and
the command that mends it where they differ: after a change of proto/*.proto or of the routes, build the
target openapi_print and run this.
"""
import json
import keyword
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "muster"
MENDS = "cmake --build build --target openapi_print && tools/python_api.py"
LEFT_OUT = {"login", "logout"}  # sessions are for browsers
NUMBER = "Union[float, str]"  # NaN and infinities are texts
COLUMNS = 120


def type_name(schema_name):
    """muster.JobSpec.Range.Input -> JobSpecRangeInput"""
    return schema_name.replace("muster.", "").replace(".", "")


def type_of(schema):
    if "$ref" in schema:
        return type_name(schema["$ref"].rpartition("/")[2])
    if "allOf" in schema:
        found = type_of(schema["allOf"][0])
    elif "oneOf" in schema:
        kinds = {one.get("type") for one in schema["oneOf"]}
        found = NUMBER if kinds == {"number", "string"} else "Any"
    elif schema.get("type") == "array":
        found = f"List[{type_of(schema['items'])}]"
    elif schema.get("type") == "object":
        values = schema.get("additionalProperties")
        found = f"Dict[str, {type_of(values)}]" if isinstance(values, dict) else "Dict[str, Any]"
    else:
        found = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}.get(schema.get("type"), "Any")
    return f"Optional[{found}]" if schema.get("nullable") else found


def type_text(name, schema):
    """Of required fields in all, or of fields that may all be absent. A field that is a word of Python needs the form of a call."""
    fields = {key: type_of(value) for key, value in schema.get("properties", {}).items()}
    total = "" if fields and set(schema.get("required", [])) == set(fields) else ", total=False"
    if any(keyword.iskeyword(key) for key in fields):
        rows = "".join(f'    "{key}": "{kind}",\n' for key, kind in fields.items())
        return f'{type_name(name)} = TypedDict("{type_name(name)}", {{\n{rows}}}{total})'
    return f"class {type_name(name)}(TypedDict{total}):\n" + ("\n".join(f"    {key}: {kind}" for key, kind in fields.items()) or "    pass")


def types_text(schemas):
    classes = "\n\n".join(type_text(name, schema) for name, schema in schemas.items())
    return ('"""What REST sends and takes, made by tools/python_api.py from OpenAPI: change proto/ instead.\n\n'
            'As proto3 JSON has it: 64-bit integers are texts, and what is not known is None.\n"""\n'
            f"from __future__ import annotations\n\n{imports_of(classes)}\n\n\n{classes}\n")


def imports_of(text):
    names = [name for name in ("Any", "Dict", "List", "Mapping", "Optional", "TypedDict", "Union") if re.search(rf"\b{name}\b", text)]
    return f"from typing import {', '.join(names)}"


def snake(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def argument(name):
    return name + "_" if keyword.iskeyword(name) else name


def parameters_of(operation, document):
    for one in operation.get("parameters", []):
        yield document["components"]["parameters"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one


def method(verb, path, operation, document):
    """One call as a method of the class."""
    inside, keywords, query = [], [], []
    for one in parameters_of(operation, document):
        if one["in"] == "path":
            inside.append(one["name"])
        elif one["in"] == "query":
            keywords.append((one["name"], type_of({**one["schema"], "nullable": False})))
            query.append(one["name"])
    whole, fields = None, []
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content and "$ref" in content["schema"]:
        whole = type_of(content["schema"])
    elif content:
        fields = [key for key in content["schema"].get("properties", {}) if key not in inside]
        keywords += [(key, type_of({**content["schema"]["properties"][key], "nullable": False})) for key in fields]
    key = any(one["name"] == "Idempotency-Key" for one in parameters_of(operation, document))
    positional = ["self", *(f"{argument(name)}: str" for name in inside), *([f"body: {whole}"] if whole else [])]
    named = [f"{argument(name)}: Optional[{kind}] = None" for name, kind in keywords] + (["idempotency_key: Optional[str] = None"] if key else [])
    good = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))["content"]
    result = type_of(good["application/json"]["schema"]) if "application/json" in good else "str"
    signature = f"    def {snake(operation['operationId'])}(" + ", ".join([*positional, *(["*", *named] if named else [])]) + f") -> {result}:"
    address = re.sub(r"\{(\w+)\}", lambda m: "{_quoted(" + argument(m.group(1)) + ")}", path)
    given = [f'"{verb.upper()}"', ("f" if inside else "") + f'"{address}"']
    if query:
        given.append("query={" + ", ".join(f'"{name}": {argument(name)}' for name in query) + "}")
    if whole:
        given.append("body=body")
    elif content:
        given.append("body=_given({" + ", ".join(f'"{name}": {argument(name)}' for name in fields) + "})")
    if key:
        given.append("idempotency_key=idempotency_key")
    lines = [*wrapped(signature, 8 + len(snake(operation["operationId"])) + 1), f'        """{verb.upper()} {path}"""',
             *wrapped(f"        answer: {result} = self._call(" + ", ".join(given) + ")", 27 + len(result)), "        return answer"]
    return "\n".join(lines)


def wrapped(line, indent):
    """A call broken at its commas."""
    lines = []
    while len(line) > COLUMNS:
        at = line.rfind(", ", 0, COLUMNS) + 1
        if at <= indent:
            break
        lines.append(line[:at])
        line = " " * indent + line[at:].strip()
    return [*lines, line]


def api_text(document):
    methods = [method(verb, path, operation, document) for path, verbs in document["paths"].items() for verb, operation in verbs.items()
               if operation["operationId"] not in LEFT_OUT]
    names = sorted({type_name(name) for name in document["components"]["schemas"] if re.search(rf"\b{type_name(name)}\b", "\n".join(methods))})
    imported = wrapped("from .api_types import (" + ", ".join(names) + ")", 24)
    return ('"""The calls of REST, made by tools/python_api.py from OpenAPI: change the routes instead.\n\n'
            'docs/rest.md describes each. muster.Client has them, with the connection.\n"""\n'
            "from __future__ import annotations\n\nfrom typing import Any, Dict, List, Mapping, Optional\nfrom urllib.parse import quote\n\n"
            + "\n".join(imported) + "\n\n\n"
            "def _quoted(text: str) -> str:\n    return quote(text, safe=\"\")\n\n\n"
            "def _given(fields: Mapping[str, Any]) -> Dict[str, Any]:\n    return {name: value for name, value in fields.items() if value is not None}\n\n\n"
            "class Api:\n    \"\"\"None: a parameter is not sent, and the coordinator's default applies.\"\"\"\n\n"
            "    def _call(self, method: str, path: str, *, query: Optional[Mapping[str, Any]] = None, body: Any = None,\n"
            "              idempotency_key: Optional[str] = None) -> Any:\n        raise NotImplementedError\n\n"
            + "\n\n".join(methods) + "\n")


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    text = Path(words[0]).read_text() if words else subprocess.run([ROOT / "build/tests/openapi_print"], check=True, capture_output=True, text=True).stdout
    document = json.loads(text)
    stale = []
    for name, made in (("api_types.py", types_text(document["components"]["schemas"])), ("api.py", api_text(document))):
        path = PACKAGE / name
        if "--check" in sys.argv:
            stale += [] if path.exists() and path.read_text() == made else [name]
        else:
            path.write_text(made)
    if stale:
        print(f"{' and '.join(stale)} of python/muster are not of this OpenAPI; this makes them again:\n  {MENDS}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
