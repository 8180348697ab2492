/** The network of a new sandbox, combined from the request, the user's file and the project's file. */
import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import type { CreateOptions } from '../../client/sandbox.ts'
import { PROJECT_FILE, readProject, readUser } from '../../config/config-files.ts'
import { isDevcontainerName } from '../../config/devcontainer/locate.ts'
import { Approvals } from '../../config/grants/approvals.ts'
import {
  type ApprovalRequest,
  type Combined,
  combine,
  describeApprovalRequest,
  NO_WISH,
} from '../../config/grants/combine.ts'
import { NO_PRIVILEGES, type Privileges } from '../../config/grants/privileges.ts'
import type { NetworkWish, SecretWish } from '../../config/network/network-table.ts'
import { denialOf, grantOf, networkRuleOf } from '../../config/network/rules.ts'
import { type Preset, Presets } from '../../config/presets/presets.ts'
import { basePrivileges, type FoundBase } from '../../config/project/found-base.ts'
import { invalid } from '../../core/error.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Workbench } from '../workbench.ts'
import { type NetworkOptions, type NetworkSources, privateRule } from './network-options.ts'

export interface PreparedNetwork {
  readonly network: NonNullable<CreateOptions['network']>
  /** Variables that presets set for package managers inside. */
  readonly variables: Readonly<Record<string, string>>
  readonly files: Preset['files']
}

export function presetsOf({ home, env }: Pick<Workbench, 'home' | 'env'>): Presets {
  return new Presets({ home: home.root, asking: { env, home: homedir() }, now: () => systemClock.now() })
}

export async function prepareNetwork(
  bench: Workbench,
  request: NetworkOptions,
  sources: NetworkSources,
): Promise<PreparedNetwork> {
  const wish = sources.wish ?? (await combinedWish(bench, sources.directory)).wish
  const names = [...new Set([...wish.presets, ...(request.presets ?? [])])]
  const presets = presetsOf(bench)
  const found = await Promise.all(names.map((name) => presets.get(name)))
  const allow = [
    ...wish.allow,
    ...(request.allow ?? []).map((text) => grantOf(text)),
    ...(request.allowPrivate ?? []).map((text) => grantOf(privateRule(text))),
    ...found.flatMap(({ rules }) => rules),
  ]
  const deny = [...wish.deny, ...(request.deny ?? []).map(denialOf)]
  return {
    network: {
      mode: request.mode ?? wish.mode,
      // An undefined list keeps the snapshot's, where the sandbox starts from one.
      allow: some(allow.map(ruleRequest)),
      deny: some(deny.map(ruleRequest)),
      secrets: some([
        ...new Set([...(await secretsThatExist(bench, wish.secrets)), ...(request.secrets ?? [])]),
      ]),
      intercept: request.interceptAll ? 'all' : wish.intercept,
    },
    variables: Object.assign({}, ...found.map(({ variables }) => variables)) as Record<string, string>,
    files: found.flatMap(({ files }) => files),
  }
}

/**
 * Of the secrets that the files name, those that are set. Names the missing ones, with the command that sets
 * them.
 */
async function secretsThatExist(bench: Workbench, wanted: readonly SecretWish[]): Promise<string[]> {
  if (wanted.length === 0) return []
  const there = new Set((await (await bench.client()).secrets.list()).map(({ name }) => name))
  for (const { name, hosts, header, isRequired } of wanted) {
    if (there.has(name)) continue
    const where = hosts.length > 0 ? hosts.map((host) => `--host ${host}`).join(' ') : '--host HOST'
    const hint = showHidden(`agentpod secret set ${name} ${where}${header ? ` --header ${header}` : ''}`)
    if (isRequired)
      throw invalid(
        'secret.missing',
        `the project needs the secret ${name}, which is not set`,
        `\`${hint}\` reads it from standard input`,
      )
    bench.person.notice({
      kind: 'info',
      text: `the secret ${name} is not set and was left out; \`${hint}\` sets it`,
    })
  }
  return wanted.map(({ name }) => name).filter((name) => there.has(name))
}

function some<T>(list: T[]): T[] | undefined {
  return list.length > 0 ? list : undefined
}

type RuleRequest = NonNullable<NonNullable<CreateOptions['network']>['allow']>[number]

function ruleRequest(rule: Parameters<typeof networkRuleOf>[0]): RuleRequest {
  return networkRuleOf(rule) as RuleRequest
}

/** The package managers of the environment need no grant of their own; a file may still narrow them. */
function userWish({ home }: Workbench, derived: readonly string[]): NetworkWish {
  const own = readUser(home.root)
  return { ...own, presets: [...new Set([...own.presets, ...derived])] }
}

/**
 * SECURITY: CF-02. What a project's file asks for beyond the user's own file needs the user's approval, once.
 * Without an answer it is left out, with a notice.
 */
export async function combinedWish(
  bench: Workbench,
  directory: string | undefined,
  derived: readonly string[] = [],
  more?: MoreWishes | undefined,
): Promise<Combined> {
  const user = userWish(bench, derived)
  if (directory === undefined) return combine(user)
  const project = withMore(readProject(directory), more)
  if (!project) return combine(user)
  const approvals = new Approvals(bench.home.root)
  const place = realpathSync(directory)
  const isApproved = (hash: string): boolean => approvals.has(hash, place)
  const first = combine(user, project, isApproved)
  if (!first.asked) return first
  if (!(await isGranted(bench, first.asked, more?.file ?? PROJECT_FILE))) return first
  approvals.add(first.asked.hash, place, new Date(systemClock.now()))
  return combine(user, project, isApproved)
}

/** What other files than agentpod.toml ask for. */
export interface MoreWishes {
  /** The file's name, for the person who decides. */
  readonly file: string
  readonly privileges: Partial<Privileges>
  /** What the file asks of the network and of secrets; agentpod.toml goes first. */
  readonly wish?: NetworkWish | undefined
}

function withMore(project: NetworkWish | undefined, more: MoreWishes | undefined): NetworkWish | undefined {
  if (!more) return project
  const { privileges = NO_PRIVILEGES, ...own } = project ?? more.wish ?? NO_WISH
  const both = (one: Privileges['images'] = [], other: Privileges['images'] = []): readonly string[] => [
    ...(one === 'any' ? [] : one),
    ...(other === 'any' ? [] : other),
  ]
  const secrets = (more.wish?.secrets ?? []).filter(
    ({ name }) => !own.secrets.some((one) => one.name === name),
  )
  return {
    ...own,
    secrets: [...own.secrets, ...secrets],
    privileges: {
      ...privileges,
      images: both(privileges.images, more.privileges.images),
      dockerfiles: both(privileges.dockerfiles, more.privileges.dockerfiles),
      devcontainer: both(privileges.devcontainer, more.privileges.devcontainer),
    },
  }
}

async function isGranted({ person }: Workbench, asked: ApprovalRequest, file: string): Promise<boolean> {
  const lines = describeApprovalRequest(asked)
  const answer = await person.question('grant', { file, lines })
  if (answer !== undefined) return answer
  const notice = (text: string): void => person.notice({ kind: 'info', text })
  notice(`${file} asks for more than you have granted:`)
  for (const line of lines) notice(`  ${line}`)
  const left = isDevcontainerName(file)
    ? 'the devcontainer is not used until you approve it'
    : 'it was left out'
  notice(`${left}; \`agentpod policy approve\` grants it to this project as it is now`)
  return false
}

/**
 * SECURITY: CF-02. Whether the user approves an image or Dockerfile that another file than agentpod.toml
 * names. The question is its own, so that an answer about one file says nothing about another.
 */
export async function isBaseApproved(bench: Workbench, directory: string, base: FoundBase): Promise<boolean> {
  return isFileApproved(bench, directory, baseRequest(base))
}

/** What one file other than agentpod.toml asks for. */
export interface FileRequest {
  /** The file's name, for the person who decides. */
  readonly file: string
  readonly privileges: Privileges
}

export function baseRequest(base: FoundBase): FileRequest {
  return { file: base.evidence.file, privileges: basePrivileges(base) }
}

/** SECURITY: CF-02. Asks once for everything that the file asks for. */
export async function isFileApproved(
  bench: Workbench,
  directory: string,
  request: FileRequest,
): Promise<boolean> {
  const asked = askedByFile(bench, directory, request)
  if (!asked) return true
  if (!(await isGranted(bench, asked, request.file))) return false
  new Approvals(bench.home.root).add(asked.hash, realpathSync(directory), new Date(systemClock.now()))
  return true
}

/** The same without asking. */
export function isFileGranted(bench: Workbench, directory: string, request: FileRequest): boolean {
  return askedByFile(bench, directory, request) === undefined
}

/** Undefined if it is granted already. */
function askedByFile(
  bench: Workbench,
  directory: string,
  { privileges }: FileRequest,
): ApprovalRequest | undefined {
  const approvals = new Approvals(bench.home.root)
  const place = realpathSync(directory)
  const wish = { ...NO_WISH, privileges }
  return combine(readUser(bench.home.root), wish, (hash) => approvals.has(hash, place)).asked
}

/** Grants what the file asks for. Undefined if it is granted already. */
export function approveFile(
  bench: Workbench,
  directory: string,
  request: FileRequest,
): ApprovalRequest | undefined {
  const asked = askedByFile(bench, directory, request)
  if (asked)
    new Approvals(bench.home.root).add(asked.hash, realpathSync(directory), new Date(systemClock.now()))
  return asked
}

/**
 * Grants what the project's file asks for. Undefined when it asks for nothing that is not granted already.
 */
export function approve(
  bench: Workbench,
  directory: string,
  derived: readonly string[],
  more?: MoreWishes | undefined,
): ApprovalRequest | undefined {
  const project = withMore(readProject(directory), more)
  const place = realpathSync(directory)
  const approvals = new Approvals(bench.home.root)
  const { asked } = combine(userWish(bench, derived), project, (hash) => approvals.has(hash, place))
  if (asked) approvals.add(asked.hash, place, new Date(systemClock.now()))
  return asked
}
