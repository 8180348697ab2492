/**
 * Files that every sandbox needs, whatever its image contains: the account `user` with a home, a host name
 * and machine id, and podd's token. The daemon unpacks them from one archive into the container's root before
 * it starts.
 */
import { Readable } from 'node:stream'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import { packTar, type TarFile } from '../../../util/file/tar-writer.ts'
import { callSignal } from '../daemon/call-signal.ts'
import { type Daemon, readAnswer } from '../daemon/daemon.ts'
import { readTar } from '../image/tar.ts'

const DIRECTORY = '.agentpod'
/** SECURITY: DK-02. Directly below the root: no part of a mount point's path can be renamed from inside. */
export const PROGRAMS_PATH = `/${DIRECTORY}`
export const PODD_PATH = `${PROGRAMS_PATH}/podd`
export const TOKEN_FILE = '/.agentpod-token'

const USER = 'user'
const FIRST_ID = 1000
const LAST_ID = 60_000
const LONGEST_FILE_BYTES = 4 * 1024 * 1024

/** The files that an image lacks. They are determined once per image. */
export type InitialFiles = readonly TarFile[]

/** Reads the accounts of a container that has not started yet. */
export async function readAccounts(daemon: Daemon, container: string, o: CallOptions): Promise<InitialFiles> {
  // SECURITY: DK-02. A link in the image could make us run a program that root inside controls.
  const mounted = await firstEntry(daemon, container, PROGRAMS_PATH, o)
  if (mounted?.type !== '5') throw unsafeImage()
  const passwd = await readInside(daemon, container, '/etc/passwd', o)
  const group = passwd === undefined ? undefined : await readInside(daemon, container, '/etc/group', o)
  return accountFiles(passwd, group)
}

export function unsafeImage(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'image.unsafe',
    message: 'the image has a link or a file in place of a directory: /.agentpod, /tmp, /etc or /home/user',
    hint: 'rebuild the image with directories there',
    cause,
  })
}

export function accountFiles(passwd: string | undefined, group: string | undefined): InitialFiles {
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

/** 1000 if it is free, so that a project's files have the same owner in every image. */
function freeId(lines: readonly string[]): number {
  const taken = new Set(lines.map((line) => line.split(':')[2]))
  let id = FIRST_ID
  while (taken.has(String(id)) && id < LAST_ID) id += 1
  return id
}

/** The shell of root, since not every image has bash. */
function shellOf(users: readonly string[]): string {
  const shell = users.find((line) => line.startsWith('root:'))?.split(':')[6] ?? ''
  return /^\/[\w/.-]+$/.test(shell) ? shell : '/bin/sh'
}

function textFile(path: string, lines: readonly string[]): TarFile {
  return { path, mode: 0o644, content: Buffer.from(lines.map((line) => `${line}\n`).join('')) }
}

/** The content of a regular file; undefined if there is none. */
async function readInside(
  daemon: Daemon,
  container: string,
  path: string,
  o: CallOptions,
): Promise<string | undefined> {
  const entry = await firstEntry(daemon, container, path, o)
  return entry?.type === '0' ? entry.content.toString('utf8') : undefined
}

/** The type of a path, with its content if it is a file; undefined if it does not exist. */
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
      return { type, content: await readAnswer(Readable.from(content(), { objectMode: false })) }
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

/**
 * The archive for one container. It always replaces the files of the image or snapshot, which belong to
 * another sandbox.
 */
export function initialArchive(files: InitialFiles, { hostname, machineId, token }: Identity): Buffer {
  return packTar([
    ...files,
    // SECURITY: FS-14. The runtime mounts over it; the daemon refuses the archive if the image has no
    // directory there.
    { path: 'tmp', mode: 0o1777 },
    textFile('etc/machine-id', [machineId]),
    textFile('etc/hosts', [
      '127.0.0.1 localhost',
      '::1 localhost ip6-localhost ip6-loopback',
      `127.0.1.1 ${hostname}`,
    ]),
    // Nothing answers there, so a name that does not go through the proxy fails quickly.
    textFile('etc/resolv.conf', ['nameserver 127.0.0.53', 'options timeout:2 attempts:1']),
    tokenFile(token),
  ])
}

/** For a container that is started again: it already has the other files. */
export function tokenArchive(token: string): Buffer {
  return packTar([tokenFile(token)])
}

function tokenFile(token: string): TarFile {
  return { path: TOKEN_FILE.slice(1), mode: 0o400, content: Buffer.from(token) }
}
