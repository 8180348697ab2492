/** `app.json` and `Procfile` of Heroku. */
import { isObject, valueAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import type { Language } from '../finding.ts'
import { readTextFile, shortQuote, textAt } from '../project-files/parsed-file.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import {
  commandAt,
  firstKeys,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  type SourcePath,
  sayingOf,
  unused,
  valueIn,
} from './source-file.ts'

const APP = 'app.json'
const PROCFILE = 'Procfile'
const MOST = 50

export function readHeroku(tree: FileTree): readonly FormatFile[] {
  return [...(tree.has(APP) ? appJson(tree) : []), ...(tree.has(PROCFILE) ? [procfile(tree)] : [])]
}

/** Keys that only Heroku's file has; Expo and React Native have an `app.json` too. */
const HEROKU = ['addons', 'buildpacks', 'env', 'environments', 'formation', 'scripts', 'stack', 'success_url']

const BUILDPACKS: Readonly<Record<string, Language>> = {
  nodejs: 'node',
  python: 'python',
  go: 'go',
  java: 'java',
  gradle: 'java',
  ruby: 'ruby',
  php: 'php',
}

const ADDONS: readonly (readonly [name: RegExp, service: string])[] = [
  [/^(?:heroku-)?postgres(?:ql)?\b/, 'postgres'],
  [/^(?:heroku-redis|rediscloud|redistogo|openredis|heroku-kvs|heroku-key-value-store)\b/, 'redis'],
  [/^(?:jawsdb-maria|jawsdb|cleardb)\b/, 'mysql'],
  [/^(?:cloudamqp|rabbitmq-bigwig|stackhero-rabbitmq)\b/, 'rabbitmq'],
  [/^(?:memcachier|memcachedcloud)\b/, 'memcached'],
  [/^(?:mongolab|ormongo|mongodb)\b/, 'mongodb'],
  [/^(?:bonsai|searchbox|foundelasticsearch)\b/, 'elasticsearch'],
]

const DESCRIBES = 'it describes the app for its page at Heroku'
const DEPLOYS = 'AgentPod does not deploy'
const OTHERS: Readonly<Record<string, string>> = {
  name: DESCRIBES,
  description: DESCRIBES,
  keywords: DESCRIBES,
  website: DESCRIBES,
  repository: DESCRIBES,
  logo: DESCRIBES,
  success_url: DESCRIBES,
  formation: DEPLOYS,
  stack: DEPLOYS,
  image: DEPLOYS,
}

function appJson(tree: FileTree): readonly FormatFile[] {
  const format = newFormat(APP, 'heroku')
  const source = readSourceFile(tree, APP, format)
  if (!source) return [format]
  const isHeroku =
    !Object.hasOwn(source.data, 'expo') && HEROKU.some((key) => Object.hasOwn(source.data, key))
  if (!isHeroku) return format.notes.length > 0 ? [format] : []
  for (const [at, one] of listIn(format, source, ['buildpacks']).entries()) {
    const url = textAt(one, 'url') ?? ''
    const [, name = ''] =
      /^(?:heroku\/|https:\/\/github\.com\/heroku\/heroku-buildpack-)([a-z]+)/.exec(url) ?? []
    const language = Object.hasOwn(BUILDPACKS, name) ? BUILDPACKS[name] : undefined
    const path = ['buildpacks', at, 'url']
    if (language)
      format.versions.push({ language, value: '*', rank: format.rank, evidence: sayingOf(source, path, url) })
    else
      unused(
        format,
        source,
        path,
        'AgentPod runs no buildpacks; name its packages under [environment.packages]',
      )
  }
  readEnv(format, source, ['env'])
  readEnv(format, source, ['environments', 'test', 'env'])
  readAddons(format, source, ['addons'])
  readAddons(format, source, ['environments', 'test', 'addons'])
  readScripts(format, source)
  noteOthers(format, source, [], {
    used: ['buildpacks', 'env', 'addons', 'scripts', 'environments'],
    why: OTHERS,
  })
  noteOthers(format, source, ['environments'], { used: ['test'], why: { review: DEPLOYS } })
  noteOthers(format, source, ['environments', 'test'], {
    used: ['env', 'addons', 'scripts'],
    why: { formation: DEPLOYS, buildpacks: 'those of the app are used' },
  })
  return [format]
}

function listIn(format: FormatDraft, source: SourceFile, path: SourcePath): readonly unknown[] {
  const list = valueIn(source.data, path)
  return Array.isArray(list) ? firstOf(format, source, path, list, MOST) : []
}

/** A value is text, or a table with `value`, `required` and `generator`. */
function readEnv(format: FormatDraft, source: SourceFile, at: SourcePath): void {
  const table = valueIn(source.data, at)
  if (!isObject(table)) return
  for (const name of firstKeys(format, source, at, MOST)) {
    const one = table[name]
    const path = [...at, name]
    const value = typeof one === 'string' ? one : valueAt(one, 'value')
    if (typeof value === 'string' && /^[A-Za-z_]\w{0,127}$/.test(name)) {
      const isProduction = /^(?:NODE|RAILS|RACK|MIX|APP)_ENV$/.test(name) && /^prod/i.test(value)
      if (isProduction) unused(format, source, path, 'with it, the dependencies of tests would be missing')
      else format.variables.push({ name, value, evidence: sayingOf(source, path, value) })
    } else if (textAt(one, 'generator') !== undefined)
      unused(
        format,
        source,
        path,
        'Heroku generates its value; set one under [environment.variables] in agentpod.toml',
      )
    else if (valueAt(one, 'required') !== false)
      unused(format, source, path, 'it has no value; set one under [environment.variables], or as a secret')
  }
}

function readAddons(format: FormatDraft, source: SourceFile, at: SourcePath): void {
  for (const [index, one] of listIn(format, source, at).entries()) {
    const path = [...at, index]
    const plan = typeof one === 'string' ? one : (textAt(one, 'plan') ?? '')
    const known = ADDONS.find(([name]) => name.test(plan))
    const version = /^\d{1,3}(?:\.\d{1,3})?$/.exec(textAt(one, 'options', 'version') ?? '')?.[0]
    if (known && !format.services.some(({ name }) => name === known[1]))
      format.services.push({
        name: known[1],
        ...(version !== undefined && { version }),
        evidence: sayingOf(source, path, plan),
      })
    else if (!known) unused(format, source, path, 'it is a service of Heroku')
  }
}

function readScripts(format: FormatDraft, source: SourceFile): void {
  const scripts = ['environments', 'test', 'scripts']
  const own = valueIn(source.data, scripts) === undefined ? ['scripts'] : scripts
  const prepare = commandAt(format, source, [...own, 'test-setup'])
  const test = commandAt(format, source, [...own, 'test'])
  if (test) addCommand(format, 'test', prepare ? { ...test, run: `${prepare.run}\n${test.run}` } : test)
  const why = {
    postdeploy: 'it runs after a deployment',
    'pr-predestroy': 'it runs before a deployment ends',
  }
  noteOthers(format, source, ['scripts'], { used: ['test', 'test-setup'], why })
  noteOthers(format, source, scripts, { used: ['test', 'test-setup'], why })
}

const LONGEST_PROCFILE = 20_000
const LONGEST_COMMAND = 8192

/** `web` starts the project; platforms set PORT, which is not set here. */
function procfile(tree: FileTree): FormatFile {
  const format = newFormat(PROCFILE, 'procfile')
  const whole = readTextFile(tree, PROCFILE)
  if (whole === undefined || whole.length > LONGEST_PROCFILE) {
    format.notes.push(`${PROCFILE} is not used: it is not a text of at most ${LONGEST_PROCFILE} characters`)
    return format
  }
  const lines = whole.split('\n')
  for (const [index, text] of lines.entries()) {
    const line = text.trim()
    const [, name] = /^([\w-]{1,60}):/.exec(line) ?? []
    const command = line.slice((name ?? '').length + 1).trim()
    if (name === undefined || command === '' || command.length > LONGEST_COMMAND) {
      if (line !== '' && !line.startsWith('#'))
        format.notes.push(
          `${PROCFILE}:${index + 1}: ${shortQuote(line, 40)} is not used: a line is a name, a colon and a command of at most ${LONGEST_COMMAND} characters`,
        )
      continue
    }
    const evidence = { file: PROCFILE, line: index + 1, said: shortQuote(text) }
    const place = `${PROCFILE}:${index + 1}`
    if (name === 'web' && !format.commands.start) {
      const needsPort = /\$\{?PORT\b/.test(command)
      const run = needsPort ? `export PORT="\${PORT:-5000}"; ${command}` : command
      addCommand(format, 'start', { run, evidence })
      if (needsPort) format.ports.push({ port: 5000, evidence })
    } else if (name === 'release')
      format.notes.push(
        `${place}: release is not used: it runs before a deployment; run it in \`agentpod shell\`, or as [lifecycle] start in agentpod.toml`,
      )
    else
      format.notes.push(
        `${place}: ${name} is not used: it is not started; to start it beside the project, write ${name} = { run = "..." } under [services] in agentpod.toml`,
      )
  }
  return format
}
