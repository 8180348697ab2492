/**
 * Patterns of git's for what programs leave beside the sources whenever they run: nobody's change, also where no .gitignore says so. Words of
 * a shell script. What the project itself has of these is compared all the same.
 */
export const CACHES = "'__pycache__/' '.pytest_cache/' '.mypy_cache/' '.ruff_cache/'"
