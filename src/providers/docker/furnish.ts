/**
 * What every sandbox needs in the files of an image, whatever that holds: the account `user` with a home, an identity, and the token for
 * podd. It goes in by one archive before anything inside runs; the daemon unpacks it inside the container's root.
 */
import { Readable } from 'node:stream'
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { callSignal } from './call-signal.ts'
import { collect, type Daemon } from './daemon.ts'
import { packTar, readTar, type TarFile } from './tar.ts'

const DIRECTORY = '.agentpod'
/** SECURITY: DK-02. Right below the root: of a mount point, no part of its path can be moved out of the way from inside. */
export const PROGRAMS = `/${DIRECTORY}`
export const PODD = `${PROGRAMS}/podd`
export const TOKEN_FILE = '/.agentpod-token'

const USER = 'user'
const FIRST_ID = 1000
const LAST_ID = 60_000
const LONGEST_FILE_BYTES = 4 * 1024 * 1024

/** Files that an image lacks. They are the same for all of its containers, so they are found out once. */
export type Furnishing = readonly TarFile[]

/** Looks into a container that does not run yet. */
export async function lookForAccounts(
  daemon: Daemon,
  container: string,
  o: CallOptions,
): Promise<Furnishing> {
  // SECURITY: DK-02. Behind a link of the image, root inside could lead to a program of its own.
  const mounted = await firstEntry(daemon, container, PROGRAMS, o)
  if (mounted?.type !== '5') throw unsafeImage()
  const passwd = await readInside(daemon, container, '/etc/passwd', o)
  const group = passwd === undefined ? undefined : await readInside(daemon, container, '/etc/group', o)
  return accountFiles(passwd, group)
}

export function unsafeImage(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'image.unsafe',
    message:
      'the image has a link or a file where a directory has to be: /.agentpod, /tmp, /etc or /home/user',
    hint: 'rebuild the image so that these are directories',
    cause,
  })
}

export function accountFiles(passwd: string | undefined, group: string | undefined): Furnishing {
  const users = linesOf(passwd)
  const groups = linesOf(group)
  const isNamed = (lines: readonly string[], name: string): boolean =>
    lines.some((line) => line.startsWith(`${name}:`))
  if (isNamed(users, USER) && isNamed(users, 'root')) return []
  const id = freeId([...users, ...groups])
  const addedUsers = [
    ...(isNamed(users, 'root') ? [] : ['root:x:0:0:root:/root:/bin/sh']),
    ...(isNamed(users, USER) ? [] : [`${USER}:x:${id}:${id}:${USER}:/home/${USER}:${shellOf(users)}`]),
  ]
  const addedGroups = [
    ...(isNamed(groups, 'root') ? [] : ['root:x:0:']),
    ...(isNamed(groups, USER) ? [] : [`${USER}:x:${id}:`]),
  ]
  return [
    ...(passwd === undefined ? [{ path: 'etc', mode: 0o755 }] : []),
    textFile('etc/passwd', [...users, ...addedUsers]),
    textFile('etc/group', [...groups, ...addedGroups]),
    ...(isNamed(users, USER) ? [] : [{ path: `home/${USER}`, mode: 0o755, uid: id, gid: id }]),
  ]
}

function linesOf(text: string | undefined): string[] {
  return (text ?? '').split('\n').filter((line) => line !== '')
}

/** 1000 where nobody has it: files of a project that come from outside are that user's then, whatever the image. */
function freeId(lines: readonly string[]): number {
  const taken = new Set(lines.map((line) => line.split(':')[2]))
  let id = FIRST_ID
  while (taken.has(String(id)) && id < LAST_ID) id += 1
  return id
}

/** As root has it: bash is not in every image. */
function shellOf(users: readonly string[]): string {
  const shell = users.find((line) => line.startsWith('root:'))?.split(':')[6] ?? ''
  return /^\/[\w/.-]+$/.test(shell) ? shell : '/bin/sh'
}

function textFile(path: string, lines: readonly string[]): TarFile {
  return { path, mode: 0o644, content: Buffer.from(lines.map((line) => `${line}\n`).join('')) }
}

/** A plain file's content; undefined where there is none, or something else. */
async function readInside(
  daemon: Daemon,
  container: string,
  path: string,
  o: CallOptions,
): Promise<string | undefined> {
  const entry = await firstEntry(daemon, container, path, o)
  return entry?.type === '0' ? entry.content.toString('utf8') : undefined
}

/** What a path is, with its content where that is a file; undefined where there is nothing. */
async function firstEntry(
  daemon: Daemon,
  container: string,
  path: string,
  o: CallOptions,
): Promise<{ readonly type: string; readonly content: Buffer } | undefined> {
  const ended = new AbortController()
  const signal = AbortSignal.any([ended.signal, callSignal(o)])
  try {
    const ask = { method: 'GET', path: `/containers/${container}/archive`, query: { path } } as const
    for await (const { type, size, content } of readTar(await daemon.stream(ask, o, signal))) {
      if (type !== '0' || size > LONGEST_FILE_BYTES) return { type, content: Buffer.alloc(0) }
      return { type, content: await collect(Readable.from(content(), { objectMode: false })) }
    }
    return undefined
  } catch (error) {
    if (isAgentPodError(error, 'not_found')) return undefined
    throw error
  } finally {
    ended.abort()
  }
}

export interface Identity {
  readonly hostname: string
  readonly machineId: string
  readonly token: string
}

/** The archive for one container. What an image or a snapshot has of these files is of another one, so they are always replaced. */
export function furnishingArchive(files: Furnishing, { hostname, machineId, token }: Identity): Buffer {
  return packTar([
    ...files,
    // SECURITY: FS-14. The runtime mounts over it; the daemon refuses the archive where an image has something else than a directory there.
    { path: 'tmp', mode: 0o1777 },
    textFile('etc/machine-id', [machineId]),
    textFile('etc/hosts', [
      '127.0.0.1 localhost',
      '::1 localhost ip6-localhost ip6-loopback',
      `127.0.1.1 ${hostname}`,
    ]),
    // Nothing answers there: a name that the way out does not resolve fails at once.
    textFile('etc/resolv.conf', ['nameserver 127.0.0.53', 'options timeout:2 attempts:1']),
    tokenFile(token),
  ])
}

/** For a container that starts again: it has everything else. */
export function tokenArchive(token: string): Buffer {
  return packTar([tokenFile(token)])
}

function tokenFile(token: string): TarFile {
  return { path: TOKEN_FILE.slice(1), mode: 0o400, content: Buffer.from(token) }
}
