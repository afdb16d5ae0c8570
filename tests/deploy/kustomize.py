"""The part of kustomize that deploy/kubernetes uses, so that its folders can be checked without it.

`kubectl kustomize` gives the same documents; where it is at hand, check.py compares the two.
"""

import copy
import pathlib

import yaml

KEYS = {"apiVersion", "kind", "resources", "components", "patches", "images", "namespace"}
# The member that names an item of a list; lists without one are replaced. The items of a patch come
# first, so a variable that a patch adds cannot refer to one of the patched document.
NAMED_BY = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath",
            "ports": "containerPort"}


class Wrong(Exception):
    """A kustomization that is malformed, or needs more than this file knows."""


def documents(path):
    """The YAML documents of a file."""
    return [item for item in yaml.safe_load_all(pathlib.Path(path).read_text()) if item]


def same(one, other):
    """Whether two documents describe one object."""
    return all(one.get(key) == other.get(key) for key in ("apiVersion", "kind")) and \
        one["metadata"]["name"] == other["metadata"]["name"]


def merge_lists(name, old, new):
    key = NAMED_BY.get(name)
    if not key or not all(isinstance(item, dict) and key in item for item in old + new):
        return copy.deepcopy(new)
    known = {item[key]: item for item in old}
    changed = [merge(known.get(item[key], {}), item) for item in new]
    named = {item[key] for item in new}
    return changed + [copy.deepcopy(item) for item in old if item[key] not in named]


def merge(old, new):
    """A strategic merge: null removes, lists of named items are merged by their names."""
    result = copy.deepcopy(old)
    for key, value in new.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        elif isinstance(value, list) and isinstance(result.get(key), list):
            result[key] = merge_lists(key, result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def patch(items, path):
    for change in documents(path):
        for at, item in enumerate(items):
            if same(item, change):
                items[at] = merge(item, change)
                break
        else:
            raise Wrong(f"{path}: nothing to patch: {change['kind']} {change['metadata']['name']}")


def containers(item):
    """All containers of a document, at whatever depth."""
    if isinstance(item, dict):
        for key, value in item.items():
            if key == "containers":
                yield from value
            else:
                yield from containers(value)
    elif isinstance(item, list):
        for value in item:
            yield from containers(value)


def rename(items, images):
    for image in images:
        for container in (one for item in items for one in containers(item)):
            if container["image"] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"


def add(items, path):
    if path.is_dir():
        items.extend(build(path))
    else:
        items.extend(documents(path))


def apply(items, folder):
    """Applies the kustomization of a folder to the documents."""
    [said] = documents(folder / "kustomization.yaml")
    unknown = set(said) - KEYS
    if unknown:
        raise Wrong(f"{folder}: unknown keys {sorted(unknown)}")
    for name in said.get("resources", []):
        add(items, folder / name)
    for name in said.get("components", []):
        apply(items, folder / name)
    for entry in said.get("patches", []):
        patch(items, folder / entry["path"])
    if "namespace" in said:
        for item in items:
            item["metadata"]["namespace"] = said["namespace"]
    rename(items, said.get("images", []))


def build(folder):
    """The documents of a folder with a kustomization."""
    items = []
    apply(items, pathlib.Path(folder))
    return items
