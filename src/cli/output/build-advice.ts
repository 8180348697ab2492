/** What to do about failures of package managers that are known by their words. */
const KNOWN: readonly (readonly [RegExp, string])[] = [
  [
    /\bEUSAGE\b[\s\S]*npm ci|can only install packages when your package\.json and package-lock\.json/,
    'package-lock.json does not match package.json: run `npm install` here and commit package-lock.json',
  ],
  [/ERR_PNPM_OUTDATED_LOCKFILE/, 'pnpm-lock.yaml does not match package.json: run `pnpm install` here'],
  [/lockfile needs to be updated|YN0028/, 'yarn.lock does not match package.json: run `yarn install` here'],
  [
    /lockfile had changes, but lockfile is frozen/,
    'bun.lock does not match package.json: run `bun install` here',
  ],
  [/The lockfile is out of date/, 'deno.lock does not match the project: run `deno install` here'],
  [
    /poetry\.lock was last generated|Run `poetry lock`/,
    'poetry.lock does not match pyproject.toml: run `poetry lock` here',
  ],
  [
    /lock file .* needs to be updated but --locked/,
    'Cargo.lock does not match Cargo.toml: run `cargo check` here',
  ],
  [/No space left on device|\bENOSPC\b/, 'the disk is full: `agentpod prune` removes unused layers'],
]

export function adviceOn(words: string): string | undefined {
  return KNOWN.find(([pattern]) => pattern.test(words))?.[1]
}

const ERROR = /\b(?:error|ERR!|fatal|failed)\b|^E:/i
const MOST_FIRST = 8

/** The first lines that speak of an error, where they are not among the last. */
export function firstErrors(lines: readonly string[], shown: number): string[] {
  return lines
    .slice(0, -shown)
    .filter((line) => ERROR.test(line))
    .slice(0, MOST_FIRST)
}
