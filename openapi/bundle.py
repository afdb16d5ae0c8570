#!/usr/bin/env python3
"""bundle.py SOURCE OUTPUT [VERSION]: one of the contracts as one JSON document.

`file.yaml#/section/name` becomes `#/components/section/name`, and what it points to is put there, with all that this
refers to in turn. Top-level members that only hold anchors are left out. VERSION is that of the program.
"""

import datetime
import json
import os
import sys

import yaml

ANCHORS = "x-anchors"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # The one in C takes a seventh of the time.


class Bundle:
    def __init__(self, source):
        self.folder = os.path.dirname(os.path.abspath(source))
        self.name = os.path.basename(source)
        self.files = {}
        self.components = {}  # (section, name): definition, with its references rewritten.

    def load(self, name):
        if name not in self.files:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                self.files[name] = yaml.load(file, Loader=Loader)
        return self.files[name]

    def rewrite(self, value, name):
        """A copy of `value`, which stands in the file `name`."""
        if isinstance(value, list):
            return [self.rewrite(item, name) for item in value]
        if isinstance(value, (datetime.date, datetime.datetime)):
            raise SystemExit(f"{name}: {value} is read as a date: put it in quotes")
        if not isinstance(value, dict):
            return value
        result = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise SystemExit(f"{name}: the key {key!r} is not text: put it in quotes")
            result[key] = self.refer(item, name) if key == "$ref" else self.rewrite(item, name)
        return result

    def refer(self, ref, name):
        file, _, pointer = ref.partition("#/")
        if name == self.name and not file:
            return ref
        section, _, item = pointer.partition("/")
        file = file or name
        found = self.load(file).get(section, {}).get(item)
        if found is None:
            raise SystemExit(f"{name}: {ref} points to nothing")
        self.put(section, item, found, file)
        return f"#/components/{section}/{item}"

    def put(self, section, item, found, file):
        known = self.components.get((section, item))
        if known is None:
            self.components[section, item] = {"file": file}  # It may refer to itself.
            self.components[section, item] = {"file": file, "value": self.rewrite(found, file)}
        elif known["file"] != file:
            raise SystemExit(f"{section}/{item} is in {file} and in {known['file']}")

    def document(self):
        root = {key: item for key, item in self.load(self.name).items() if key != ANCHORS}
        result = self.rewrite(root, self.name)
        sections = result.setdefault("components", {})
        for scheme, value in self.security_schemes(result).items():
            sections.setdefault("securitySchemes", {})[scheme] = value
        for (section, item), entry in sorted(self.components.items()):
            sections.setdefault(section, {})[item] = entry["value"]
        return result

    def security_schemes(self, document):
        """They are referred to by name alone."""
        if "openapi" not in document:
            return {}
        return self.rewrite(self.load("components.yaml")["securitySchemes"], "components.yaml")


def main():
    source, output, *version = sys.argv[1:]
    document = Bundle(source).document()
    if version and "info" in document:
        document["info"]["version"] = version[0]
    text = json.dumps(document, ensure_ascii=False, indent=1)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
