/** Version candidates from files for several languages: those of asdf and mise, and CI workflows. */
import { isObject, objectAt } from '../../../util/untrusted-json.ts'
import type { Candidate, Evidence, Rank } from '../../evidence.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { Language } from '../finding.ts'
import { imageName, tagVersion } from './image-name.ts'
import {
  lineOf,
  type ParsedFile,
  readTextFile,
  readTomlFile,
  shortQuote,
  textAt,
  versionText,
} from './parsed-file.ts'
import { agentWorkflow, type Workflow, type WorkflowStep, workflows } from './workflows.ts'
import { readYamlFile, type YamlFile } from './yaml-file.ts'

/** The names of languages in asdf and mise. */
const TOOL_NAMES: Partial<Readonly<Record<Language, readonly string[]>>> = {
  node: ['nodejs', 'node'],
  python: ['python'],
  go: ['golang', 'go'],
  rust: ['rust'],
  java: ['java'],
  kotlin: ['kotlin'],
  ruby: ['ruby'],
  php: ['php'],
  deno: ['deno'],
  bun: ['bun'],
  dotnet: ['dotnet-core', 'dotnet'],
  elixir: ['elixir'],
}

const MISE_FILES = [
  'mise.toml',
  '.mise.toml',
  '.config/mise.toml',
  '.config/mise/config.toml',
  'mise/config.toml',
  '.mise/config.toml',
]

/** Actions that install a language, and the input with its version. */
const ACTIONS: readonly (readonly [action: string, language: Language, key: string])[] = [
  ['actions/setup-node', 'node', 'node-version'],
  ['actions/setup-python', 'python', 'python-version'],
  ['astral-sh/setup-uv', 'python', 'python-version'],
  ['actions/setup-go', 'go', 'go-version'],
  ['actions/setup-java', 'java', 'java-version'],
  ['graalvm/setup-graalvm', 'java', 'java-version'],
  ['ruby/setup-ruby', 'ruby', 'ruby-version'],
  ['shivammathur/setup-php', 'php', 'php-version'],
  ['denoland/setup-deno', 'deno', 'deno-version'],
  ['oven-sh/setup-bun', 'bun', 'bun-version'],
  ['actions/setup-dotnet', 'dotnet', 'dotnet-version'],
  ['erlef/setup-beam', 'elixir', 'elixir-version'],
  ['dtolnay/rust-toolchain', 'rust', 'toolchain'],
  ['actions-rs/toolchain', 'rust', 'toolchain'],
  ['actions-rust-lang/setup-rust-toolchain', 'rust', 'toolchain'],
  ['moonrepo/setup-rust', 'rust', 'channel'],
]

/** Container images of languages, and the form of their tags. */
const IMAGES: readonly (readonly [name: RegExp, language: Language, tag?: RegExp])[] = [
  [/^(?:cimg\/|circleci\/)?node$/, 'node'],
  [/^(?:cimg\/|circleci\/)?python$/, 'python'],
  [/^(?:cimg\/go|golang)$/, 'go'],
  [/^(?:cimg\/)?rust$/, 'rust'],
  [/^(?:cimg\/)?ruby$/, 'ruby'],
  [/^(?:cimg\/)?php$/, 'php'],
  [/^denoland\/deno$/, 'deno', /(?:^|-)(\d[\d.]*)$/],
  [/^oven\/bun$/, 'bun'],
  [/^(?:hexpm\/)?elixir$/, 'elixir'],
  [/^dotnet\/(?:sdk|runtime|aspnet)$/, 'dotnet'],
  [/^(?:eclipse-temurin|openjdk|amazoncorretto|cimg\/openjdk|azul\/zulu-openjdk)$/, 'java'],
  [/^(?:maven|gradle|sbtscala\/scala-sbt)$/, 'java', /(?:jdk|temurin|openjdk|corretto|java)-?(\d{1,3})/],
]

/** Candidates for one language in one directory: nearer files first, and version files before workflows. */
export function versionFileCandidates(tree: FileTree, directory: string, language: Language): Candidate[] {
  const found = [
    ...agentCandidates(tree, language),
    ...directoryAndParents(directory).flatMap((at) => [
      ...toolVersions(tree, joinPath(at, '.tool-versions'), language),
      ...MISE_FILES.flatMap((name) => miseVersions(tree, joinPath(at, name), language)),
    ]),
    ...workflows(tree).flatMap((workflow) => workflowVersions(workflow, language, 'ci')),
    ...gitlabVersions(tree, language),
  ]
  const seen = new Set<string>()
  return found.filter(({ value, rank, evidence: { file, line } }) => {
    const key = rank === 'ci' ? `${value}\n${file}` : `${value}\n${file}\n${line}`
    return seen.has(key) ? false : seen.add(key)
  })
}

/** A directory and all directories above it, up to the project's root. */
export function directoryAndParents(directory: string): string[] {
  const parts = directory === '' ? [] : directory.split('/')
  return Array.from({ length: parts.length + 1 }, (_, up) => parts.slice(0, parts.length - up).join('/'))
}

function agentCandidates(tree: FileTree, language: Language): Candidate[] {
  const workflow = agentWorkflow(tree)
  return workflow ? workflowVersions(workflow, language, 'agent file') : []
}

function toolVersions(tree: FileTree, file: string, language: Language): Candidate[] {
  const names = TOOL_NAMES[language]
  const text = readTextFile(tree, file)
  if (!names || text === undefined) return []
  return text.split('\n').flatMap((written, at) => {
    const [name = '', ...versions] = withoutComment(written).split(/\s+/)
    if (!names.includes(name)) return []
    return candidates(language, versions, 'version file', { file, line: at + 1, said: shortQuote(written) })
  })
}

function withoutComment(line: string): string {
  return line.slice(0, 200).replace(/#.*$/, '').trim()
}

function miseVersions(tree: FileTree, file: string, language: Language): Candidate[] {
  const read = readTomlFile(tree, file)
  if (!read) return []
  return (TOOL_NAMES[language] ?? []).flatMap((name) => {
    const written = Object.entries(objectAt(read.data, 'tools')).find(
      ([key]) => key === name || key === `core:${name}`,
    )
    if (!written) return []
    const versions = miseValues(written[1])
    return candidates(language, versions, 'version file', {
      file,
      ...lineOfTool(read, written[0]),
      said: shortQuote(`${written[0]} = ${JSON.stringify(versions.length === 1 ? versions[0] : versions)}`),
    })
  })
}

function miseValues(value: unknown): string[] {
  if (Array.isArray(value))
    return value.slice(0, 20).flatMap((one) => (Array.isArray(one) ? [] : miseValues(one)))
  const version = versionText(isObject(value) ? value['version'] : value)
  return version === undefined ? [] : [version]
}

function lineOfTool({ text }: ParsedFile, name: string): { line?: number } {
  const line = lineOf(text, '[tools', name)
  return line === undefined ? {} : { line }
}

function workflowVersions({ file, jobs }: Workflow, language: Language, rank: Rank): Candidate[] {
  return jobs.flatMap(({ container, steps }) => [
    ...(container ? imageVersions(language, container.image, rank, { file, line: container.line }) : []),
    ...steps.flatMap((step) => stepVersions(file, step, language, rank)),
  ])
}

function stepVersions(file: string, step: WorkflowStep, language: Language, rank: Rank): Candidate[] {
  return ACTIONS.filter(([action, of]) => action === step.action && of === language).flatMap(([, , key]) => {
    const values = step.values(key)
    if (values.length > 0)
      return values.flatMap((value) =>
        candidates(language, [value], rank, {
          file,
          line: step.line('with', key),
          said: shortQuote(`${key}: ${value}`),
        }),
      )
    // The version of this action is the toolchain: dtolnay/rust-toolchain@1.80.
    if (step.action !== 'dtolnay/rust-toolchain' || step.line('with', key) !== undefined) return []
    return candidates(language, [step.reference], rank, {
      file,
      line: step.line('uses'),
      said: shortQuote(`uses: ${step.action}@${step.reference}`),
    })
  })
}

/** Top-level keys that are not jobs. */
const GITLAB_WORDS = new Set(['stages', 'variables', 'include', 'workflow', 'cache', 'services'])
const MOST_GITLAB_JOBS = 200

function gitlabVersions(tree: FileTree, language: Language): Candidate[] {
  const file = '.gitlab-ci.yml'
  const yaml = readYamlFile(tree, file)
  if (!yaml) return []
  const jobs = Object.keys(yaml.data)
    .filter((key) => !GITLAB_WORDS.has(key) && isObject(yaml.data[key]))
    .slice(0, MOST_GITLAB_JOBS)
  return [[], ...jobs.map((job) => [job])].flatMap((path) => {
    const image = gitlabImage(yaml, path)
    const line = yaml.lineAt([...path, 'image'])
    return image === undefined ? [] : imageVersions(language, image, 'ci', { file, line })
  })
}

function gitlabImage({ data }: YamlFile, path: readonly string[]): string | undefined {
  return textAt(data, ...path, 'image') ?? textAt(data, ...path, 'image', 'name')
}

function imageVersions(
  language: Language,
  image: string,
  rank: Rank,
  place: Omit<Evidence, 'said'>,
): Candidate[] {
  const read = imageName(image)
  const known = read && IMAGES.find(([name, of]) => of === language && name.test(read.name))
  if (!read || !known) return []
  const version = known[2] ? known[2].exec(read.tag)?.[1] : tagVersion(read.tag)
  return version === undefined
    ? []
    : candidates(language, [version], rank, { ...place, said: shortQuote(`image: ${image}`) })
}

function candidates(
  language: Language,
  versions: readonly string[],
  rank: Rank,
  evidence: Evidence,
): Candidate[] {
  return versions.flatMap((written) => {
    const value = cleaned(language, written)
    return value === undefined ? [] : [{ value, rank, evidence }]
  })
}

/** Channel names instead of versions. */
const CHANNELS = /^(?:latest|lts(?:[/-][\w*]+)?|current|stable|beta|nightly(?:-[\d-]+)?|canary|node)$/

/** A version without the vendor. Undefined for other implementations, and for paths. */
function cleaned(language: Language, written: string): string | undefined {
  const plain = written.trim().replace(/^prefix:/, '')
  const text = language === 'java' ? plain.replace(/^[a-z][a-z_-]*-(?=\d)/, '') : plain
  const value = versionText(language === 'ruby' ? text.replace(/^ruby-(?=\d)/, '') : text)
  if (value === undefined) return undefined
  if (language === 'java') return /^\d{1,4}(?:\.\d{1,6}){0,3}/.exec(value)?.[0]
  if (language === 'elixir') return value.replace(/-otp-\d+$/, '')
  return /^[v~^<>=]*\s?\d/.test(value) || CHANNELS.test(value) ? value : undefined
}
