/** Reads files that describe a project's environment for machines: for other agents, platforms and CI. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { isObject, listAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import type { FileTree } from '../../file-tree.ts'
import type { Finding, FoundCommand, FoundPackage, Verb } from '../finding.ts'
import { distinctPackages } from '../project-files/debian-packages.ts'
import {
  evidenceIn,
  malformedNote,
  readJsoncFile,
  readTextFile,
  shortQuote,
  textAt,
} from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import {
  AGENT_JOB,
  AGENT_WORKFLOW,
  agentWorkflow,
  type WorkflowJob,
  type WorkflowStep,
  workflows,
} from '../project-files/workflows.ts'
import { aptPackages, shellCommands, shellLines } from './shell-lines.ts'

export interface AgentFiles {
  readonly commands: Partial<Record<Verb, FoundCommand>>
  readonly packages: readonly FoundPackage[]
  readonly ports: NonNullable<Finding['ports']>
  readonly notes: readonly string[]
}

const NOTHING: AgentFiles = { commands: {}, packages: [], ports: [], notes: [] }
const MOST_NOTES = 20

/** If two files have the same command, the first wins; packages from workflows come last. */
export function detectAgentFiles(tree: FileTree): AgentFiles {
  const all = [cursor(tree), copilot(tree), procfile(tree), inWorkflows(tree)]
  return {
    commands: Object.assign({}, ...all.map(({ commands }) => commands).toReversed()),
    packages: distinctPackages(all.flatMap(({ packages }) => packages)),
    ports: all.flatMap(({ ports }) => ports),
    notes: all.flatMap(({ notes }) => notes).slice(0, MOST_NOTES),
  }
}

function cursor(tree: FileTree): AgentFiles {
  const file = '.cursor/environment.json'
  const read = readJsoncFile(tree, file)
  if (!read) return NOTHING
  if (read.problem !== undefined) return { ...NOTHING, notes: [malformedNote(file, read.problem)] }
  const says = (key: string, value: string): Evidence =>
    evidenceIn(file, read.text, [`"${key}"`], `"${key}": ${JSON.stringify(value)}`)
  const install = textAt(read.data, 'install') ?? ''
  const installed = installing(file, install, (text) => says('install', text))
  const start = textAt(read.data, 'start')
  const terminals = listAt(read.data, 'terminals')
    .slice(0, 10)
    .flatMap((one) => {
      const command = textAt(one, 'command')
      return command === undefined
        ? []
        : [`${file} runs ${quote(command)} in a terminal, which is not supported`]
    })
  const dockerfile = textAt(read.data, 'build', 'dockerfile')
  return {
    commands: installed.setup ? { setup: installed.setup } : {},
    packages: packagesIn(install, () => says('install', install)),
    ports: listAt(read.data, 'ports')
      .slice(0, 20)
      .flatMap((one) => {
        const port = isObject(one) ? one['port'] : one
        return typeof port === 'number' && Number.isInteger(port) && port > 0 && port < 65_536
          ? [{ port, evidence: says('ports', String(port)) }]
          : []
      }),
    notes: [
      ...installed.notes,
      ...(start === undefined
        ? []
        : [`${file} starts ${quote(start)} beside the agent; define it as a service to have it started`]),
      ...terminals,
      ...(dockerfile === undefined
        ? []
        : [`${file} builds from ${quote(dockerfile)}; Dockerfiles are not read yet`]),
      ...(textAt(read.data, 'snapshot') === undefined
        ? []
        : [`${file} names a snapshot that only its own service can use`]),
    ],
  }
}

function quote(text: string): string {
  return `\`${shortQuote(text, 60)}\``
}

/** Actions that need nothing from us, or that the choice of versions has used. */
const KNOWN_ACTION =
  /^(?:actions\/(?:checkout|cache|setup-\w+)|(?:[\w.-]+)\/(?:setup-[\w-]+|action-setup|rust-toolchain|toolchain|rust-cache|gradle-build-action|setup-gradle)|swatinem\/rust-cache)(?:\/\w+)?$/
/** Install commands of package managers. */
const INSTALLS =
  /^(?:npm (?:ci|i|install)|pnpm (?:i|install)|yarn(?: install)?$|yarn install|bun (?:i|install)|pip3? install|python3? -m (?:pip install|venv)|uv (?:sync|pip install|venv)|poetry install|pdm (?:install|sync)|pipenv (?:install|sync)|bundle install|go mod download|cargo fetch|composer install|mix deps\.get|dotnet restore|mvn .*dependency:|\.\/mvnw .*dependency:|make (?:setup|install|deps|bootstrap)|just (?:setup|install)|\.?\/?(?:scripts?|bin)\/(?:setup|bootstrap|install)\b)/
const HOUSEKEEPING = /^(?:set -|cd \S+$|echo\b|export \w+=|true$|:$|\w+ --version$|\w+ version$)/

function copilot(tree: FileTree): AgentFiles {
  const workflow = agentWorkflow(tree)
  if (!workflow) return NOTHING
  if (workflow.problem !== undefined)
    return { ...NOTHING, notes: [malformedNote(workflow.file, workflow.problem)] }
  const [job] = workflow.jobs
  if (!job)
    return { ...NOTHING, notes: [`${AGENT_WORKFLOW} has no job named ${AGENT_JOB}, so it is not used`] }
  const setup: string[] = []
  const notes: string[] = []
  let evidence: Evidence | undefined
  for (const step of job.steps) {
    if (step.action !== '' && !KNOWN_ACTION.test(step.action))
      notes.push(`${AGENT_WORKFLOW} uses ${quote(step.action)}, which is not supported`)
    const installed = installing(AGENT_WORKFLOW, step.run, (said) => ({
      file: AGENT_WORKFLOW,
      line: step.line('run'),
      said: shortQuote(said),
    }))
    notes.push(...installed.notes)
    if (installed.setup) setup.push(inDirectory(step, installed.setup.run))
    evidence ??= installed.setup?.evidence
  }
  return {
    commands: evidence ? { setup: { run: setup.join(' && '), evidence } } : {},
    packages: packagesOfJob(AGENT_WORKFLOW, job),
    ports: [],
    notes: notes.slice(0, MOST_NOTES),
  }
}

/** Keeps the commands of package managers from an install script; a note mentions the rest. */
function installing(
  file: string,
  script: string,
  says: (text: string) => Evidence,
): { readonly setup: FoundCommand | undefined; readonly notes: readonly string[] } {
  const lines = shellLines(script).map(({ text }) => {
    const rest = withoutApt(text)
    return rest === '' ? { text, kind: kindOf(text) } : { text: rest, kind: kindOf(rest) }
  })
  const installs = lines.flatMap(({ text, kind }) => (kind === 'install' ? [text] : []))
  const [first] = installs
  return {
    setup: first === undefined ? undefined : { run: installs.join(' && '), evidence: says(first) },
    notes: lines.flatMap(({ text, kind }) =>
      kind === 'other'
        ? [
            `${file} runs ${quote(text)}, which is not supported; to run it when the environment is built, write [lifecycle] setup in agentpod.toml`,
          ]
        : [],
    ),
  }
}

/** Debian's packages are installed apart, before everything else. */
function withoutApt(line: string): string {
  if (/\|\||[;|'"()]/.test(line)) return line
  const parts = line.split('&&').map((part) => part.trim())
  return parts.filter((part) => !shellCommands(part).every((one) => aptPackages(one))).join(' && ')
}

function kindOf(line: string): 'apt' | 'install' | 'housekeeping' | 'other' {
  if (line.includes('${{')) return 'other'
  const commands = shellCommands(line)
  if (commands.every((one) => aptPackages(one) !== undefined || HOUSEKEEPING.test(one)))
    return commands.some((one) => aptPackages(one) !== undefined) ? 'apt' : 'housekeeping'
  return commands.every((one) => INSTALLS.test(one) || HOUSEKEEPING.test(one)) ? 'install' : 'other'
}

function inDirectory({ workingDirectory }: WorkflowStep, command: string): string {
  const directory = workingDirectory.includes('${{') ? '' : (pathInProject('', workingDirectory) ?? '')
  return directory === '' ? command : `(cd ${shellWord(directory)} && ${command})`
}

function packagesIn(script: string, evidence: (offset: number, said: string) => Evidence): FoundPackage[] {
  return shellLines(script).flatMap(({ text, offset }) =>
    shellCommands(text).flatMap((command) =>
      (aptPackages(command) ?? []).map((name) => ({ name, evidence: evidence(offset, command) })),
    ),
  )
}

/** Steps for other machines are left out. */
function packagesOfJob(file: string, { steps }: WorkflowJob): FoundPackage[] {
  return steps
    .filter(({ condition }) => condition === '' || /linux|ubuntu/i.test(condition))
    .flatMap((step) =>
      packagesIn(step.run, (_, said) => ({ file, line: step.line('run'), said: shortQuote(said) })),
    )
}

const WORTHWHILE_JOB = /test|check|ci\b|build|lint|unit|spec/i
const OTHER_JOB =
  /release|deploy|publish|docs?\b|pages|docker|cross|windows|macos|bench|fuzz|coverage-report|nightly|wasm|android|ios|arm/i

function inWorkflows(tree: FileTree): AgentFiles {
  const packages = workflows(tree).flatMap(({ file, jobs }) =>
    OTHER_JOB.test(file.slice(file.lastIndexOf('/')))
      ? []
      : jobs
          .filter(
            ({ id, name }) =>
              WORTHWHILE_JOB.test(`${id} ${name} ${file}`) && !OTHER_JOB.test(`${id} ${name}`),
          )
          .flatMap((job) => packagesOfJob(file, job)),
  )
  return { ...NOTHING, packages }
}

function procfile(tree: FileTree): AgentFiles {
  const file = 'Procfile'
  const lines = (readTextFile(tree, file) ?? '').slice(0, 20_000).split('\n')
  const commands: Partial<Record<Verb, FoundCommand>> = {}
  const notes: string[] = []
  const ports: { port: number; evidence: Evidence }[] = []
  for (const [index, text] of lines.entries()) {
    const [, name, command = ''] = /^([\w-]{1,60}):\s{0,10}(\S.{0,1000})$/.exec(text.trim()) ?? []
    if (name === undefined) continue
    const evidence = { file, line: index + 1, said: shortQuote(text) }
    if (name !== 'web')
      notes.push(`Procfile names ${quote(`${name}: ${command}`)}, which is not started automatically`)
    else if (!commands.start) {
      // Platforms set PORT; here it is not set.
      const needsPort = /\$\{?PORT\b/.test(command)
      commands.start = { run: needsPort ? `export PORT="\${PORT:-5000}"; ${command}` : command, evidence }
      if (needsPort) ports.push({ port: 5000, evidence })
    }
  }
  return { commands, packages: [], ports, notes: notes.slice(0, 10) }
}

const TESTS =
  /^(?:npm (?:t|test|run test\S*)|pnpm (?:run )?test\S*|yarn (?:run )?test\S*|bun (?:run )?test\S*|npx (?:vitest|jest|mocha)\b|(?:python3? -m )?(?:pytest|unittest|tox|nox)\b|(?:poetry|uv|pdm|pipenv|hatch) run (?:pytest|test|tox|nox|python -m pytest)\b|hatch test\b|python3? manage\.py test|go test\b|cargo (?:nextest run|test)\b|(?:make|just|task|ninja) (?:\S+ )?(?:test|tests|check)\b|(?:mvn|\.\/mvnw)\b.* (?:test|verify)\b|(?:gradle|\.\/gradlew)\b.* (?:test|check|build)\b|(?:bundle exec )?(?:rspec|rake test|rails test|rake spec)\b|(?:\.\/)?bin\/(?:rails test|rspec)\b|(?:\.\/)?vendor\/bin\/(?:phpunit|pest)\b|composer (?:run )?test|php artisan test|mix test\b|dotnet test\b|deno (?:task )?test\b|ctest\b|meson test\b|sbt\b.*\btest\b|swift test\b|zig build test\b|bats\b)/

/** The test command of a CI workflow, used if nothing else has one. */
export function ciTestCommand(tree: FileTree): FoundCommand | undefined {
  const jobs = workflows(tree).flatMap(({ file, jobs }) => jobs.map((job) => ({ file, job })))
  const rank = ({ id, name }: WorkflowJob): number => {
    if (OTHER_JOB.test(`${id} ${name}`)) return 9
    if (/^(?:unit[-_ ]?)?tests?$/i.test(id) || /^(?:unit )?tests?$/i.test(name)) return 0
    if (/test/i.test(`${id} ${name}`)) return 1
    return /^(?:ci|build|check|verify|main)$/i.test(id) ? 2 : 3
  }
  const ranked = jobs.filter(({ job }) => rank(job) < 9).toSorted((a, b) => rank(a.job) - rank(b.job))
  for (const { file, job } of ranked)
    for (const step of job.steps)
      for (const { text } of shellLines(step.run)) {
        const isPlain = !text.includes('${{') && shellCommands(text).some((command) => TESTS.test(command))
        if (isPlain)
          return {
            run: inDirectory(step, text),
            evidence: { file, line: step.line('run'), said: shortQuote(`run: ${text}`) },
          }
      }
  return undefined
}
