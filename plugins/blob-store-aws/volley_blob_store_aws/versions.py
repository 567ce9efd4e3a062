"""How `BlobRef.version` spells an S3 object's version: a version id as it is, an etag in the quotes that HTTP gives it.

An event, a listing and a HEAD request must spell one object alike, or it would count as two.
"""

from __future__ import annotations


def spell(version_id: str | None, etag: str | None) -> str:
    """The version id if the bucket gives one, else the etag; empty if neither is known."""
    # "null" names whatever was written without versioning: the next such write takes it over.
    if version_id and version_id != "null":
        return version_id
    bare = (etag or "").strip('"')
    return f'"{bare}"' if bare else ""


def pin(version: str) -> dict[str, str]:
    """Parameters of a request that must read this version or fail."""
    if not version:
        return {}
    return {"IfMatch": version} if version.startswith('"') else {"VersionId": version}
