"""Text of others, on its way to a person: shown, not obeyed."""


def printable(text: str) -> str:
    r"""Text without what moves a cursor, rings a bell, or turns the direction of writing: such characters become ``\x1b`` and the like.

    Every name in a run, a dataset or a checkpoint may have been chosen by somebody else.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode("ascii") for each in text
    )
