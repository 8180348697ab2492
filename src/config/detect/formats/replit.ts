/** `.replit` and `replit.nix` of Replit. */
import { isObject, listAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import type { Language } from '../finding.ts'
import { stringsAt, textAt } from '../project-files/parsed-file.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { readNixList } from './nix-files.ts'
import { addNixPackage } from './nix-names.ts'
import {
  commandAt,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  sayingOf,
  unused,
  validPort,
  variablesAt,
} from './source-file.ts'

const FILE = '.replit'
const NIX = 'replit.nix'
const MOST = 50

const MODULES: readonly (readonly [name: RegExp, language: Language])[] = [
  [/^nodejs(?:-with-prybar)?$/, 'node'],
  [/^python(?:-with-prybar|-base)?$/, 'python'],
  [/^go$/, 'go'],
  [/^rust$/, 'rust'],
  [/^java(?:-graalvm)?$/, 'java'],
  [/^ruby$/, 'ruby'],
  [/^php$/, 'php'],
  [/^bun$/, 'bun'],
  [/^deno$/, 'deno'],
  [/^dotnet$/, 'dotnet'],
  [/^(?:c|cpp|clang)$/, 'c'],
]

/** Names of `language =`. */
const LANGUAGES: Readonly<Record<string, Language>> = {
  python3: 'python',
  python: 'python',
  nodejs: 'node',
  javascript: 'node',
  typescript: 'node',
  go: 'go',
  rust: 'rust',
  java: 'java',
  ruby: 'ruby',
  php: 'php',
  c: 'c',
  cpp: 'c',
}

const EDITOR = 'it configures the editor of Replit'
const OTHERS: Readonly<Record<string, string>> = {
  entrypoint: 'it is the file that the editor of Replit opens',
  hidden: EDITOR,
  languages: EDITOR,
  interpreter: EDITOR,
  debugger: EDITOR,
  gitHubImport: EDITOR,
  hints: EDITOR,
  audio: EDITOR,
  packager: 'dependencies are installed from the manifests of the project',
  workflows: 'the commands are those of `run` and of the manifests',
  unitTest: 'the test command is that of the manifests',
  auth: 'it is a service of Replit',
  objectStorage: 'it is a service of Replit',
  agent: 'it configures the agent of Replit',
  hosting: 'it configures deployments of Replit',
  version: 'it is the version of the format',
}

export function readReplit(tree: FileTree): readonly FormatFile[] {
  return [...(tree.has(FILE) ? [replit(tree)] : []), ...(tree.has(NIX) ? [replitNix(tree)] : [])]
}

function replit(tree: FileTree): FormatFile {
  const format = newFormat(FILE, 'replit')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return format
  const modules = stringsAt(source.data, 'modules')
  for (const [at, name] of firstOf(format, source, ['modules'], modules, MOST).entries())
    readModule(format, source, at, name)
  const language = textAt(source.data, 'language')
  if (language !== undefined) {
    const known = Object.hasOwn(LANGUAGES, language) ? LANGUAGES[language] : undefined
    const evidence = sayingOf(source, ['language'], language)
    if (known) format.versions.push({ language: known, value: '*', rank: format.rank, evidence })
    else unused(format, source, ['language'], 'no toolchain is known for it')
  }
  const packages = stringsAt(source.data, 'nix', 'packages')
  for (const [at, name] of firstOf(format, source, ['nix', 'packages'], packages, MOST).entries())
    addNixPackage(format, name, sayingOf(source, ['nix', 'packages', at], name))
  addCommand(format, 'dev', commandAt(format, source, ['run']))
  addCommand(
    format,
    'build',
    commandAt(format, source, ['deployment', 'build']) ?? commandAt(format, source, ['compile']),
  )
  addCommand(format, 'start', commandAt(format, source, ['deployment', 'run']))
  const boot = commandAt(format, source, ['onBoot'])
  if (boot) format.start.push(boot)
  format.variables.push(...variablesAt(format, source, [isObject(source.data['env']) ? 'env' : 'run-env']))
  readPorts(format, source)
  noteOthers(format, source, [], {
    used: ['modules', 'language', 'nix', 'run', 'compile', 'deployment', 'onBoot', 'env', 'ports'],
    why: OTHERS,
  })
  noteOthers(format, source, ['nix'], {
    used: ['packages'],
    why: {
      channel:
        'packages come from Debian; where the base has nix, write nix = [...] under [environment.packages]',
    },
  })
  noteOthers(format, source, ['deployment'], {
    used: ['run', 'build'],
    why: {
      deploymentTarget: 'AgentPod does not deploy',
      ignorePorts: 'AgentPod does not deploy',
      publicDir: 'AgentPod does not deploy',
      postBuild: 'AgentPod does not deploy',
    },
  })
  return format
}

/** `nodejs-20`, `python-3.11:v18-20230807`, `postgresql-16`. */
function readModule(format: FormatDraft, source: SourceFile, at: number, written: string): void {
  const [, name = '', version] = /^([a-z][a-z-]*?)-?(\d[\d.]*)?(?::.*)?$/.exec(written) ?? []
  const evidence = sayingOf(source, ['modules', at], written)
  const known = MODULES.find(([pattern]) => pattern.test(name))
  if (known) format.versions.push({ language: known[1], value: version ?? '*', rank: format.rank, evidence })
  else if (name === 'postgresql')
    format.services.push({ name: 'postgres', ...(version !== undefined && { version }), evidence })
  else if (name === 'redis') format.services.push({ name: 'redis', evidence })
  else if (!['web', 'bash', 'replit', 'hermit'].includes(name))
    unused(format, source, ['modules', at], 'no toolchain is known for this module')
}

function readPorts(format: FormatDraft, source: SourceFile): void {
  const ports = listAt(source.data, 'ports')
  for (const [at, entry] of firstOf(format, source, ['ports'], ports, MOST).entries()) {
    const path = ['ports', at]
    const port = validPort(isObject(entry) ? entry['localPort'] : undefined)
    if (port === undefined) unused(format, source, path, 'it has no localPort')
    else
      format.ports.push({
        port,
        label: textAt(entry, 'name'),
        evidence: sayingOf(source, [...path, 'localPort'], String(port)),
      })
    noteOthers(format, source, path, {
      used: ['localPort', 'name'],
      why: {
        externalPort: '`agentpod dev` forwards a port under its own number',
        exposeLocalhost: '`agentpod dev` forwards every port to this machine only',
      },
    })
  }
}

function replitNix(tree: FileTree): FormatFile {
  const format = newFormat(NIX, 'replit-nix')
  readNixList(tree, format)
  return format
}
