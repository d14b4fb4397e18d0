"""Optional parts, and how to get them."""


def how_to_install(extra: str) -> str:
    """A command in words. Holdfast is installed from its repository: on PyPI the name is another project's."""
    return f"in Holdfast's folder, pip install -c constraints.txt -e '.[{extra}]'"
