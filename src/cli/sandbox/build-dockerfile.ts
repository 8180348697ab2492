/** `agentpod build -f Dockerfile`. */
import { readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import type { DockerfileWarning } from '../../client/builds.ts'
import { asAgentPodError, invalid } from '../../core/error.ts'
import { parseImageRef } from '../../core/image-ref.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { buildDockerfile } from '../../workbench/dockerfile/build-dockerfile.ts'
import { buildCallbacks } from '../../workbench/environment/build-callbacks.ts'
import type { OptionSpec, Parsed } from '../args/parse.ts'
import { parseDuration } from '../args/values.ts'
import type { CommandContext } from '../command.ts'
import { BuildLog, megabytes } from '../output/build-log.ts'
import { StepLogs } from '../output/step-logs.ts'
import { execInTerminal } from './exec-in-terminal.ts'

export const DOCKERFILE_OPTIONS = {
  file: { short: 'f', value: 'FILE', help: 'build this Dockerfile instead of the project’s environment' },
  target: { value: 'STAGE', help: 'with -f: the stage to build (default: the last one)' },
  'build-arg': { value: 'NAME[=VALUE]', help: 'with -f: the value of an ARG', repeat: true },
  secret: {
    value: 'id=ID,src=FILE|env=NAME',
    help: 'with -f: a secret for RUN --mount=type=secret',
    repeat: true,
  },
  tag: { short: 't', value: 'NAME', help: 'with -f: store the result as an image of this name' },
  'no-cache': { help: 'with -f: build every step again' },
  allow: { value: 'RULE', help: 'with -f: a host that steps may reach', repeat: true },
  'allow-private': {
    value: 'RULE',
    help: 'with -f: a host that steps may reach even on a private address',
    repeat: true,
  },
  preset: { value: 'NAME', help: 'with -f: the hosts that a tool needs, like npm, pip or apt', repeat: true },
  timeout: { value: 'TIME', help: 'with -f: how long one step may take (default 30m)' },
} as const satisfies Record<string, OptionSpec>

const OWN = [
  'base',
  'image',
  'profile',
  'agent',
  'again',
  'frozen',
  'devcontainer',
  'no-devcontainer',
  'no-compose',
  'service',
  'compose-profile',
] as const

/** Refuses options that belong to the other kind of build. */
export function checkDockerfileOptions(parsed: Parsed): void {
  const isDockerfile = parsed.value('file') !== undefined
  const wrong = isDockerfile
    ? OWN.find((name) => parsed.has(name) || parsed.values(name).length > 0)
    : Object.keys(DOCKERFILE_OPTIONS).find((name) => parsed.has(name) || parsed.values(name).length > 0)
  if (wrong !== undefined)
    throw invalid(
      'option.unfit',
      `--${wrong} ${isDockerfile ? 'has no meaning for a Dockerfile' : 'is for Dockerfiles'}`,
      isDockerfile ? 'leave it out' : 'name the Dockerfile with -f FILE',
    )
  if (!isDockerfile && parsed.words.length > 0)
    throw invalid(
      'option.unfit',
      'a directory is for Dockerfiles',
      `\`agentpod build -f ${parsed.words[0]}/Dockerfile ${parsed.words[0]}\` builds its Dockerfile`,
    )
}

export async function buildDockerfileCommand(ctx: CommandContext, parsed: Parsed): Promise<number> {
  const { terminal } = ctx
  const file = resolve(parsed.value('file') ?? 'Dockerfile')
  const directory = resolve(parsed.words[0] ?? '.')
  const tag = parsed.value('tag')
  if (tag !== undefined) parseImageRef(tag)
  const timeout = parsed.value('timeout')
  const isDebug = parsed.has('debug')
  using log = new BuildLog(terminal, {
    isVerbose: parsed.has('verbose'),
    logs: new StepLogs(ctx.home, `dockerfile-${basename(directory)}`),
    allowHint: (host) => `--allow ${host}`,
  })
  try {
    const built = await buildDockerfile(
      ctx,
      {
        file,
        directory,
        target: parsed.value('target'),
        args: parseArgs(parsed.values('build-arg'), ctx.env),
        secrets: parseSecrets(parsed.values('secret'), ctx.env),
        tag,
        useCache: !parsed.has('no-cache'),
        timeoutMs: timeout === undefined ? undefined : parseDuration(timeout, 'timeout'),
        allow: parsed.values('allow'),
        allowPrivate: parsed.values('allow-private'),
        presets: parsed.values('preset'),
      },
      {
        ...buildCallbacks(log),
        provider: parsed.value('provider'),
        keepFailed: isDebug,
        onWarnings: (warnings) => warn(ctx, basename(file), warnings),
      },
    )
    const { digest, image, steps, sizeBytes } = built
    if (parsed.has('json')) {
      terminal.out(JSON.stringify({ digest: digest ?? null, image: image ?? null, steps, sizeBytes }))
      return 0
    }
    const what = `${steps} ${steps === 1 ? 'step' : 'steps'}, ${megabytes(sizeBytes)}`
    const short = digest === undefined ? '' : ` (${digest.slice(0, 12)})`
    terminal.say(`${terminal.green('built')} ${image ? `${image.ref}: ` : ''}${what}${short}`)
    if (!image)
      terminal.say(terminal.dim('-t NAME stores it as an image: `agentpod run --image NAME -- COMMAND`'))
    return 0
  } catch (thrown) {
    log.failed(thrown)
    return debugDockerfile(ctx, parsed, thrown)
  }
}

/**
 * With `--debug`, opens a shell in the sandbox of the failed step. The sandbox is destroyed when the shell
 * ends. Throws the error otherwise.
 */
export async function debugDockerfile(ctx: CommandContext, parsed: Parsed, thrown: unknown): Promise<number> {
  const error = asAgentPodError(thrown)
  const { sandbox: id } = error.details ?? {}
  if (!parsed.has('debug') || typeof id !== 'string') throw error
  ctx.terminal.say(`${ctx.terminal.red('failed')} ${showHidden(error.message)}`)
  const sandbox = await (await ctx.client()).get(id)
  ctx.terminal.say('a shell in the sandbox of the failed step; it is destroyed when you exit')
  try {
    const shell = { program: '/bin/sh', args: [], onSecondInterrupt: () => undefined }
    await execInTerminal(ctx, sandbox, parsed, shell)
    return 1
  } finally {
    await sandbox.destroy()
  }
}

function warn({ terminal }: CommandContext, name: string, warnings: readonly DockerfileWarning[]): void {
  for (const { rule, text, line } of warnings)
    terminal.say(terminal.dim(`warning: ${name}:${line}: ${showHidden(text)} (${rule})`))
}

type Variables = Readonly<Record<string, string | undefined>>

/** `NAME` alone passes the caller's own value, if there is one. */
function parseArgs(texts: readonly string[], env: Variables): Record<string, string> {
  const args: Record<string, string> = {}
  for (const text of texts) {
    const at = text.indexOf('=')
    const name = at < 0 ? text : text.slice(0, at)
    if (name === '') throw invalid('option.build_arg', '--build-arg needs a name', 'write NAME=VALUE')
    const value = at < 0 ? env[name] : text.slice(at + 1)
    if (value !== undefined) args[name] = value
  }
  return args
}

const LARGEST_SECRET = 64 * 1024

/** `id=ID,src=FILE`, `id=ID,env=NAME`, or `id=ID` for a variable of that name. */
function parseSecrets(texts: readonly string[], env: Variables): Record<string, string> {
  const secrets: Record<string, string> = {}
  for (const text of texts) {
    const fields = new Map<string, string>()
    for (const part of text.split(',')) {
      const at = part.indexOf('=')
      fields.set(at < 0 ? part : part.slice(0, at), at < 0 ? '' : part.slice(at + 1))
    }
    const id = fields.get('id')
    const unknown = [...fields.keys()].find((key) => !['id', 'src', 'source', 'env', 'type'].includes(key))
    if (!id || unknown !== undefined)
      throw invalid(
        'option.secret',
        unknown === undefined ? '--secret needs an id' : `--secret has no field ${JSON.stringify(unknown)}`,
        'write --secret id=ID,src=FILE or --secret id=ID,env=NAME',
      )
    secrets[id] = secretValue(id, fields, env)
  }
  return secrets
}

function secretValue(id: string, fields: ReadonlyMap<string, string>, env: Variables): string {
  const source = fields.get('src') ?? fields.get('source')
  if (source !== undefined) {
    let content: Buffer
    try {
      content = readFileSync(source)
    } catch {
      throw invalid('option.secret', `the file of the secret ${id} cannot be read: ${source}`)
    }
    if (content.length > LARGEST_SECRET)
      throw invalid('option.secret', `the secret ${id} is larger than ${LARGEST_SECRET} bytes`)
    return content.toString('utf8')
  }
  const name = fields.get('env') ?? id
  const value = env[name]
  if (value === undefined)
    throw invalid('option.secret', `the variable ${name} of the secret ${id} is not set`)
  return value
}
