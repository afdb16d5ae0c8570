#!/usr/bin/env python3
"""Writes the list of parts of the program (SBOM) as JSON of SPDX 2.3.

Usage: sbom.py ZABRA OUT [PACKAGES]
ZABRA is the program, which names the libraries it was built with; PACKAGES the packages.json of the
dashboard's bundle. The time is SOURCE_DATE_EPOCH, or that of the commit: equal builds write equal files.
"""

import base64
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

UNKNOWN = "NOASSERTION"
# Loaded only when a command needs them: see cli/library.h.
OPTIONAL = {"libcurl", "libedit"}


def part(kind, name, version, purl, licence=UNKNOWN, checksum=None):
    """One package of SPDX. Its files are not listed: they differ between distributions."""
    found = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{kind}-{name}"),
        "name": name,
        "versionInfo": version,
        "supplier": UNKNOWN,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": licence,
        "copyrightText": UNKNOWN,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": purl}],
    }
    if checksum:
        found["checksums"] = [{"algorithm": "SHA512", "checksumValue": checksum}]
    return found


def npm_part(package):
    kind, _, digest = package["integrity"].partition("-")
    if kind != "sha512":
        sys.exit(f"sbom.py: {package['name']}: the integrity is {kind}, not sha512")
    purl = f"pkg:npm/{urllib.parse.quote(package['name'], safe='/')}@{package['version']}"
    return part("npm", package["name"], package["version"], purl, package["license"],
                base64.b64decode(digest).hex())


def document(about, packages):
    version = about["version"]
    commit = about["commit"] + ("-modified" if about["modified"] else "")
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or about.get("commit_time", 0))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    program = part("program", "zabra", version, f"pkg:generic/zabra@{version}")
    program["primaryPackagePurpose"] = "APPLICATION"
    program["sourceInfo"] = f"commit {commit}"
    parts = [program]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", program["SPDXID"])]
    for library in about["libraries"]:
        name, built = library["name"], library["built"]
        parts.append(part("library", name, built, f"pkg:generic/{name}@{built}"))
        if name in OPTIONAL:
            relations.append((parts[-1]["SPDXID"], "OPTIONAL_DEPENDENCY_OF", program["SPDXID"]))
        else:
            relations.append((program["SPDXID"], "DYNAMIC_LINK", parts[-1]["SPDXID"]))
    for package in packages:
        parts.append(npm_part(package))
        relations.append((program["SPDXID"], "CONTAINS", parts[-1]["SPDXID"]))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"zabra-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/zabra-{version}-{commit}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": [f"Tool: zabra-cmake-sbom-{version}",
                                      "Organization: zabra developers"]},
        "packages": parts,
        "relationships": [{"spdxElementId": one, "relationshipType": kind,
                           "relatedSpdxElement": other} for one, kind, other in relations],
    }


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    said = subprocess.run([sys.argv[1], "version", "--verbose", "-o", "json"], check=True,
                          stdout=subprocess.PIPE)
    packages = json.loads(pathlib.Path(sys.argv[3]).read_text()) if len(sys.argv) == 4 else []
    text = json.dumps(document(json.loads(said.stdout), packages), indent=1)
    pathlib.Path(sys.argv[2]).write_text(text + "\n")


main()
