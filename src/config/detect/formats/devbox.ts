/** `devbox.json`. */
import { isObject, objectAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { addNixPackage } from './nix-names.ts'
import {
  commandAt,
  firstKeys,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  sayingOf,
  unused,
  variablesAt,
} from './source-file.ts'
import { scriptsByVerb } from './verb-names.ts'

const FILE = 'devbox.json'
const MOST = 100

/** Packages that devbox runs as services. */
const SERVICES: Readonly<Record<string, string>> = {
  postgresql: 'postgres',
  redis: 'redis',
  valkey: 'redis',
  mysql80: 'mysql',
  mysql: 'mysql',
  mariadb: 'mariadb',
  rabbitmq: 'rabbitmq',
  memcached: 'memcached',
}

const HOOK_SHELL =
  'what init_hook exports does not reach commands, because it runs once, at the start of a sandbox; write variables under [environment.variables] in agentpod.toml'
const OTHERS: Readonly<Record<string, string>> = {
  include: 'plugins of devbox are not fetched',
  nixpkgs:
    'packages come from Debian; where the base has nix, write nix = [...] under [environment.packages]',
  env_from: 'files of variables are not read: they may hold secrets',
  name: 'it describes the project',
  description: 'it describes the project',
}

export function readDevbox(tree: FileTree): readonly FormatFile[] {
  if (!tree.has(FILE)) return []
  const format = newFormat(FILE, 'devbox')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return [format]
  readPackages(format, source)
  format.variables.push(...variablesAt(format, source, ['env']))
  const hook = commandAt(format, source, ['shell', 'init_hook'], { listIs: 'commands' })
  if (hook?.run.split('\n').some((line) => line.trim() !== '' && !/^\s*(?:echo\b[^<>|&;`$]*$|#)/.test(line)))
    format.start.push(hook)
  if (hook && /^\s*(?:export|source|\.|eval|alias)\s/m.test(hook.run))
    format.notes.push(`${FILE}:${hook.evidence.line ?? 1}: ${HOOK_SHELL}`)
  for (const [verb, name] of scriptsByVerb(Object.keys(objectAt(source.data, 'shell', 'scripts')))) {
    const command = commandAt(format, source, ['shell', 'scripts', name], { listIs: 'commands' })
    if (command && verb === 'setup') format.setup.push(command)
    else addCommand(format, verb, command)
  }
  noteOthers(format, source, [], { used: ['packages', 'env', 'shell'], why: OTHERS })
  noteOthers(format, source, ['shell'], { used: ['init_hook', 'scripts'] })
  return [format]
}

/** A list of `name@version`, or a table of versions. */
function readPackages(format: FormatDraft, source: SourceFile): void {
  const { packages } = source.data as { readonly packages?: unknown }
  const list: (readonly [path: readonly (string | number)[], name: string, version: string | undefined])[] =
    []
  if (Array.isArray(packages))
    for (const [at, one] of firstOf(format, source, ['packages'], packages, MOST).entries()) {
      if (typeof one !== 'string') unused(format, source, ['packages', at], 'it is not the name of a package')
      else {
        const [, name = one, version] = /^(.+?)@([^@]+)$/.exec(one) ?? []
        list.push([['packages', at], name, version])
      }
    }
  else if (isObject(packages))
    for (const name of firstKeys(format, source, ['packages'], MOST)) {
      const one = packages[name]
      list.push([['packages', name], name, typeof one === 'string' ? one : textAt(one, 'version')])
    }
  for (const [path, name, written] of list) {
    const version = written === 'latest' ? undefined : written
    const evidence = sayingOf(source, path, version === undefined ? name : `${name}@${version}`)
    const service = Object.hasOwn(SERVICES, name) ? SERVICES[name] : undefined
    const [major] = version?.split('.') ?? []
    if (service !== undefined)
      format.services.push({
        name: service,
        ...(major !== undefined && /^\d+$/.test(major) && { version: major }),
        evidence,
      })
    else addNixPackage(format, version === undefined ? name : `${name}@${version}`, evidence)
  }
}
