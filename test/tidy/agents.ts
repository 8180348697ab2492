// Only src/agents/ knows the names of agents. Everything else asks an agent for a property.

import { isTest, type Parsed, type Violation } from './source.ts'

const HOME = 'src/agents/'

/** Names that are ordinary words too, with the code in front of them that shows the other meaning. */
const OTHER_MEANINGS: readonly (readonly [name: string, before: RegExp])[] = [
  // The code of an issue in Zod.
  ['custom', /\bcode(?::|\s*===)\s*$/],
  // The table `tool.hatch.build.hooks.custom` of a pyproject.toml.
  ['custom', /'hooks', $/],
  // The option `--acp`.
  ['acp', /\bparsed\.has\($/],
  // An event of an HTTP request in Node.
  ['continue', /\.on\($/],
]

/** Names and aliases, read from the files of the catalog, so that a new agent is covered. */
export function agentNames(files: readonly Parsed[]): Set<string> {
  const catalog = files.filter(({ path }) => path.startsWith(`${HOME}catalog/`) && !isTest(path))
  return new Set(
    catalog.flatMap(({ text }) => [
      ...[...text.matchAll(/^ {2}name: '([^']+)'/gm)].map(([, name = '']) => name),
      ...[...text.matchAll(/^ {2}aliases: \[([^\]]*)\]/gm)].flatMap(([, list = '']) =>
        [...list.matchAll(/'([^']+)'/g)].map(([, alias = '']) => alias),
      ),
    ]),
  )
}

export function checkAgentNames(files: readonly Parsed[]): Violation[] {
  const names = agentNames(files)
  return files
    .filter(({ path }) => path.startsWith('src/') && !path.startsWith(HOME))
    .filter(({ path }) => !isTest(path) && !path.includes('/testing/'))
    .flatMap((file) =>
      file.literals
        .filter(({ value, start }) => names.has(value) && !isOther(value, file.text.slice(0, start - 1)))
        .map(({ value, line }) => ({ path: file.path, line, rule: `names the agent '${value}'` })),
    )
}

function isOther(value: string, before: string): boolean {
  const near = before.slice(-40)
  return OTHER_MEANINGS.some(([name, pattern]) => name === value && pattern.test(near))
}
