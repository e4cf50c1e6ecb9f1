"""The source archive of pgdyno-engine: pip takes it if no wheel suits the machine. It says why."""

import platform
import sys

VERSION = "@VERSION@"


def refuse(*_arguments, **_settings):
    """Name the wheel that is missing, and the next step."""
    libc = " ".join(platform.libc_ver()).strip() or "without glibc (musl?)"
    sys.exit(
        f"\npgdyno-engine {VERSION} has no wheel for this machine and this pip.\n"
        f"machine: {platform.system()} {platform.machine()}, {libc}, "
        f"Python {platform.python_version()}\n"
        "wheels:  manylinux2014 (glibc 2.17 or later) of x86_64 and aarch64\n"
        "next:    with glibc, upgrade pip (20.3 or later knows all wheels); on musl (Alpine)\n"
        "         use an image with glibc, or the static file pgdyno-pgbench of the release;\n"
        "         else build from the sources: make build needs Rust and a C compiler\n"
    )


def get_requires_for_build_wheel(*_arguments, **_settings):
    """Nothing is needed to say no."""
    return []


prepare_metadata_for_build_wheel = build_wheel = build_editable = build_sdist = refuse
