"""Holdfast in other libraries' shapes: a script that was written for one of them changes an import.

Each module imports the library it is named after only if it needs it, and nothing else of Holdfast imports these modules.
"""
