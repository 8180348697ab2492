/** Translates E2B's description of a template into a recipe, and the settings of its sandboxes. */
import { type PackageAccess, withAccess } from '../../../build/package-presets.ts'
import { COPY_STAGE, copyScript, ownerWord } from '../../../core/build/copy-script.ts'
import type { MadeTemplate } from '../../../core/build/template.ts'
import { homeOf, type Service } from '../../../core/environment.ts'
import { invalid } from '../../../core/error.ts'
import type { NetworkCap } from '../../../core/network.ts'
import { DEFAULT_STEP_MS, MOST_STEPS, type RecipeBase, type Step } from '../../../core/recipe.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { StartBuildBody, TemplateStepBody } from './schema.ts'

export interface TranslateParts {
  /** What the template is built on. */
  readonly origin: MadeTemplate
  /** The digest of the archive that was uploaded for a hash. */
  archiveOf(hash: string): string | undefined
  /** The registries of package managers. */
  readonly access: readonly PackageAccess[]
  /** The most that the caller's key may reach; no limit when left out. */
  readonly cap: NetworkCap | undefined
  readonly readyMs: number
  /** The steps of the template's newest build. */
  readonly earlier: readonly Step[]
  /** A new word for each step that is to be built again. */
  again(): string
}

export interface Translated {
  readonly made: MadeTemplate
}

interface Settings {
  readonly user: string
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
}

/** Steps are named by their number at E2B, which its SDKs use to show where a build failed. */
export function stepName(number: number): string {
  return `e2b-${number}`
}

/** The number of a step in E2B's request; undefined for a step of the template below. */
export function stepNumber(name: string): string | undefined {
  return /^e2b-(\d+)$/.exec(name)?.[1]
}

export function translate(body: StartBuildBody, parts: TranslateParts): Translated {
  const { origin } = parts
  const below = origin.recipe.steps.map((step, at) => ({ ...step, name: `below-${at + 1}` }))
  const steps: Step[] = []
  let settings: Settings = origin.environment
  let isForced = body.force ?? false
  let isAgain = false
  for (const [at, one] of body.steps.entries()) {
    const { step, next } = translated(one, settings, at + 1, parts)
    settings = next
    isForced ||= one.force ?? false
    if (!step) continue
    if (isForced && !isAgain) steps.push({ ...step, run: `${step.run}${AGAIN}${parts.again()}` })
    else steps.push(asEarlier(step, parts.earlier))
    isAgain ||= isForced
  }
  const all = [...below, ...steps]
  if (all.length > MOST_STEPS)
    throw invalid(
      'template.steps',
      `the template and those below it have ${all.length} steps; at most ${MOST_STEPS} are possible`,
      'join commands with &&',
    )
  const services = servicesOf(body, settings, parts)
  return {
    made: {
      recipe: { base: origin.recipe.base, steps: all },
      environment: { ...settings, ...(services && { services }) },
    },
  }
}

/**
 * A step that is built again gets a word of its own, and so another key, as do all steps after it. Its
 * earlier layer stays: sandboxes may run from it, and other owners may have built the same.
 */
const AGAIN = '\n# built again: '

/** Later builds use what was built again, not what was there before. */
function asEarlier(step: Step, earlier: readonly Step[]): Step {
  const same = earlier.find(({ name, run }) => name === step.name && run.startsWith(`${step.run}${AGAIN}`))
  return same ? { ...step, run: same.run } : step
}

function translated(
  one: TemplateStepBody,
  settings: Settings,
  number: number,
  parts: TranslateParts,
): { readonly step?: Step | undefined; readonly next: Settings } {
  const [first = '', second = '', third = '', fourth = ''] = one.args
  const fail = (what: string): never => {
    throw invalid('template.step', `step ${number}, ${one.type}: ${what}`)
  }
  switch (one.type) {
    case 'ENV': {
      if (one.args.length === 0 || one.args.length % 2 === 1) fail('needs names and values')
      const added: Record<string, string> = {}
      for (let at = 0; at < one.args.length; at += 2) {
        const name = one.args[at] ?? ''
        if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
          fail(`${JSON.stringify(name)} is not the name of a variable`)
        added[name] = one.args[at + 1] ?? ''
      }
      return { next: { ...settings, variables: { ...settings.variables, ...added } } }
    }
    case 'USER':
      if (!USER.test(first)) fail(`${JSON.stringify(first)} is not the name of a user`)
      return { next: { ...settings, user: first } }
    case 'WORKDIR': {
      if (first === '') fail('needs a path')
      const next = { ...settings, workdir: pathIn(settings, first) }
      return { step: directoryStep(next, number, parts), next }
    }
    case 'RUN': {
      if (first === '') fail('needs a command')
      if (second !== '' && !USER.test(second)) fail(`${JSON.stringify(second)} is not the name of a user`)
      return { step: runStepOf(first, second || settings.user, settings, { number, parts }), next: settings }
    }
    case 'COPY': {
      if (first === '' || second === '') fail('needs a source and a target')
      if (third !== '' && !/^\w[\w.-]{0,63}(?::(?:\w[\w.-]{0,63})?)?$/.test(third))
        fail('the user is malformed')
      if (fourth !== '' && !/^[0-7]{1,5}$/.test(fourth)) fail('the mode is not an octal number')
      if (!one.filesHash) return fail('needs filesHash')
      const digest = parts.archiveOf(one.filesHash)
      if (digest === undefined) return fail('its files were not uploaded')
      const source = first.replace(/^(?:\.?\/)+/, '').replace(/\/+$/, '')
      return {
        step: {
          ...rootStep(`COPY ${first} ${second}`, number),
          run: copyScript({
            from: source === '' ? '.' : source.includes('**') ? '.' : source,
            to: pathIn(settings, second),
            owner: third === '' ? settings.user : third,
            mode: fourth || undefined,
          }),
          files: { digest, to: COPY_STAGE, entries: {} },
        },
        next: settings,
      }
    }
  }
}

const USER = /^(?:[a-z_][a-z0-9_-]{0,31}|[0-9]{1,10}(?::[0-9]{1,10})?)$/

function pathIn({ user, workdir }: Settings, path: string): string {
  if (path.startsWith('/')) return path
  const below = workdir === '' ? homeOf(user) : workdir
  const rest = path.replace(/^~\/?/, '').replace(/^(?:\.\/)+/, '')
  const from = path.startsWith('~') ? homeOf(user) : below
  return rest === '' || rest === '.' ? from : `${from === '/' ? '' : from}/${rest}`
}

function rootStep(title: string, number: number): Step {
  return {
    name: stepName(number),
    title: shortTitle(title),
    run: '',
    user: 'root',
    workdir: '/',
    path: [],
    variables: { HOME: '/root' },
    network: [],
    timeoutMs: DEFAULT_STEP_MS,
  }
}

/** These exist in every template. */
const KNOWN_DIRECTORIES = ['/', '/root', '/home/user', '/tmp']

function directoryStep({ user, workdir }: Settings, number: number, _: TranslateParts): Step | undefined {
  if (KNOWN_DIRECTORIES.includes(workdir)) return undefined
  const path = shellWord(workdir)
  return {
    ...rootStep(`WORKDIR ${workdir}`, number),
    run: `[ -d ${path} ] || { mkdir -p ${path} && chown ${ownerWord(user)} ${path}; }`,
  }
}

/** Only the system inside knows the homes of other users; empty stands for them. */
function homeFor(user: string): string {
  return ['root', 'user'].includes(user) ? homeOf(user) : ''
}

function runStepOf(
  command: string,
  user: string,
  settings: Settings,
  { number, parts }: { readonly number: number; readonly parts: TranslateParts },
): Step {
  const step = {
    ...rootStep(`RUN ${command}`, number),
    run: loginShell(command),
    user,
    workdir: settings.workdir === '' ? homeFor(settings.user) : settings.workdir,
    variables: { ...(homeFor(user) !== '' && { HOME: homeFor(user) }), ...settings.variables },
  }
  return withNetwork(step, parts)
}

/**
 * At E2B a build reaches the whole internet. Here it reaches what its key may reach: every public host, the
 * hosts that the key names, or the registries of package managers.
 */
function withNetwork(step: Step, { access, cap }: TranslateParts): Step {
  const open = withAccess(step, access)
  if (cap === undefined || (cap.mode === 'open' && cap.rules === undefined)) return { ...open, anyHost: true }
  if (cap.rules !== undefined) return { ...open, network: cap.rules }
  return cap.mode === 'off' ? { ...open, network: [] } : open
}

/** A login shell, as E2B runs commands; images without bash have sh. A variable PATH survives the login. */
export function loginShell(command: string): string {
  const word = shellWord(command)
  return `if [ -x /bin/bash ]; then exec /bin/bash -l -c ${word}; else exec /bin/sh -c ${word}; fi`
}

function shortTitle(title: string): string {
  const plain = title.replaceAll(/\p{Cc}/gu, ' ').trim()
  return plain.length <= 160 ? plain : `${plain.slice(0, 157)}...`
}

/**
 * The SDKs' ready commands use `ss` and `pgrep`, which most images lack. Where one is missing, a function
 * reads the same from /proc.
 */
const STAND_INS = `command -v ss >/dev/null || ss() {
  for last do :; done
  grep -hE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "\${last#:}") [0-9A-F]+:[0-9A-F]+ 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null
}
command -v pgrep >/dev/null || pgrep() { for last do :; done; grep -lxF -- "$last" /proc/[0-9]*/comm 2>/dev/null; }
`

/** The name of the service that a start command becomes. */
export const START_SERVICE = 'start'

/**
 * The start command runs at every boot. One that ends well is done; the service stays, because a service that
 * ends is an error.
 */
function servicesOf(
  { startCmd, readyCmd }: StartBuildBody,
  { user, workdir, variables }: Settings,
  { origin, readyMs }: TranslateParts,
): readonly Service[] | undefined {
  if (!startCmd && !readyCmd) return origin.environment.services
  const service = {
    name: START_SERVICE,
    user,
    workdir,
    variables,
    needsProject: false,
    stopSignal: 'SIGTERM' as const,
    stopMs: 5000,
  }
  return [
    {
      ...service,
      run: startCmd ? `(${loginShell(startCmd)}) || exit $?\nexec sleep infinity` : 'exec sleep infinity',
      ready: {
        // The SDKs' `waitForTimeout` is a command that sleeps.
        ...(readyCmd && { command: loginShell(`${STAND_INS}${readyCmd}`), commandMs: readyMs }),
        timeoutMs: readyMs,
      },
    },
  ]
}

/**
 * Makes an image usable as a template: with the user `user`, and with its PATH in login shells, which E2B's
 * SDKs use.
 */
export function imageOrigin(base: RecipeBase): MadeTemplate {
  return {
    recipe: {
      base,
      steps: [
        {
          ...rootStep('prepare the image', 0),
          name: 'image',
          run: `set -eu
if ! id user >/dev/null 2>&1; then
  shell=/bin/sh; [ ! -x /bin/bash ] || shell=/bin/bash
  if command -v useradd >/dev/null; then useradd -m -s "$shell" user
  elif command -v adduser >/dev/null; then adduser -D -s "$shell" user
  else
    printf 'user:x:1000:1000::/home/user:%s\\n' "$shell" >> /etc/passwd
    printf 'user:x:1000:\\n' >> /etc/group
    mkdir -p /home/user && chown 1000:1000 /home/user
  fi
fi
if [ -d /etc/profile.d ]; then printf 'export PATH="%s"\\n' "$PATH" > /etc/profile.d/zz-image-path.sh; fi`,
        },
      ],
    },
    environment: { variables: {}, user: 'user', workdir: '' },
  }
}
