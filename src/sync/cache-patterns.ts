/**
 * Git patterns for caches that programs write beside the sources. They do not count as changes, even if no
 * .gitignore lists them. Words of a shell script. Files of the project that match are compared nevertheless.
 */
export const CACHES = "'__pycache__/' '.pytest_cache/' '.mypy_cache/' '.ruff_cache/'"
