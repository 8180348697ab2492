/** The files of a volume, read and changed by programs in the sandbox that mounts it. */
import type { Readable } from 'node:stream'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import type { Guest } from '../../core/guest.ts'
import type { FileContent } from '../../core/guest-files.ts'
import type { GuestConnection } from '../../engine/context.ts'
import { VOLUME_PATH } from '../../engine/volumes/volume-access.ts'

const CALL_MS = 60_000
/** About twenty thousand entries. */
const LONGEST_LISTING = 8 * 1024 * 1024
const LONGEST_PATH = 4096

/** In E2B's form. */
export interface VolumeEntry {
  readonly name: string
  readonly type: 'unknown' | 'file' | 'directory' | 'symlink'
  readonly path: string
  readonly size: number
  readonly mode: number
  readonly uid: number
  readonly gid: number
  readonly atime: string
  readonly mtime: string
  readonly ctime: string
  readonly target?: string
}

export interface EntryOptions {
  readonly uid?: number | undefined
  readonly gid?: number | undefined
  readonly mode?: number | undefined
  readonly force?: boolean | undefined
}

/** New files belong to the usual user of sandboxes, unless the caller names another. */
const USUAL_ID = 1000

/** Exit codes of the scripts below. */
const ABSENT = 44
const EXISTS = 45
const OUTSIDE = 46
const NO_DIRECTORY = 47

/**
 * Every script gets the path as its first argument. A link in the volume may lead out of it, into the
 * sandbox; such a path does not exist for callers.
 */
const HEAD = `set -u; umask 022
[ "$1" = ${VOLUME_PATH} ] || case "$(realpath -m -- "$(dirname -- "$1")")/" in ${VOLUME_PATH}/*) ;; *) exit ${OUTSIDE} ;; esac
`
const FORM = String.raw`%y\0%s\0%m\0%U\0%G\0%A@\0%T@\0%C@\0%P\0%l\0`
const LIST = `[ -e "$1" ] || exit ${ABSENT}; [ -d "$1" ] || exit ${NO_DIRECTORY}
case "$(realpath -m -- "$1")/" in ${VOLUME_PATH}/*) ;; *) exit ${OUTSIDE} ;; esac
exec find "$1/" -mindepth 1 -maxdepth "$2" -printf '${FORM}'`
const STAT = `[ -e "$1" ] || [ -L "$1" ] || exit ${ABSENT}; exec find "$1" -maxdepth 0 -printf '${FORM}'`
const SET = `[ -e "$1" ] || [ -L "$1" ] || exit ${ABSENT}
[ "$2" = "" ] || chown -h -- "$2" "$1" || exit; [ "$3" = "" ] || [ -L "$1" ] || chmod -- "$3" "$1" || exit
`
/** Makes the directories above as well, for the same user. */
const MAKE_ALL = `make_all() {
  [ -d "$1" ] && return
  make_all "$(dirname -- "$1")" "$2" && mkdir -- "$1" && chown -- "$2" "$1"
}
`
const MAKE = `${MAKE_ALL}if [ "$4" = force ]; then make_all "$1" "$2" || exit ${NO_DIRECTORY}
else [ ! -e "$1" ] || exit ${EXISTS}; [ -d "$(dirname -- "$1")" ] || exit ${ABSENT}; mkdir -- "$1" || exit; fi
`
const REMOVE = `[ "$1" != ${VOLUME_PATH} ] || exit ${OUTSIDE}; [ -e "$1" ] || [ -L "$1" ] || exit ${ABSENT}; exec rm -rf -- "$1"`
const FILE = `[ ! -d "$1" ] || exit ${NO_DIRECTORY}
case "$(realpath -m -- "$1")" in ${VOLUME_PATH}/*) ;; *) exit ${OUTSIDE} ;; esac`
const PARENTS = `${MAKE_ALL}${FILE}
make_all "$(dirname -- "$1")" "$2" || exit ${NO_DIRECTORY}`
const READ = `[ -e "$1" ] || exit ${ABSENT}; ${FILE}`

export class VolumeFiles {
  readonly #guest: Guest
  readonly #signal: AbortSignal

  constructor({ guest, ended }: GuestConnection, signal: AbortSignal) {
    this.#guest = guest
    this.#signal = AbortSignal.any([ended.signal, signal])
  }

  async list(path: string, depth: number): Promise<VolumeEntry[]> {
    const inside = insideOf(path)
    return parseEntries(await this.#run(path, LIST, [inside, String(depth)]), inside)
  }

  async stat(path: string): Promise<VolumeEntry> {
    const inside = insideOf(path)
    const [entry] = parseEntries(await this.#run(path, STAT, [inside]), inside)
    if (entry) return entry
    throw absent(path)
  }

  async makeDirectory(path: string, o: EntryOptions): Promise<VolumeEntry> {
    const usual = withUsualIds(o)
    await this.#run(path, MAKE + SET, [insideOf(path), ids(usual), mode(o), o.force ? 'force' : ''])
    return this.stat(path)
  }

  async change(path: string, o: EntryOptions): Promise<VolumeEntry> {
    await this.#run(path, SET, [insideOf(path), ids(o), mode(o)])
    return this.stat(path)
  }

  async remove(path: string): Promise<void> {
    await this.#run(path, REMOVE, [insideOf(path)])
  }

  async read(path: string): Promise<FileContent> {
    const inside = insideOf(path)
    await this.#run(path, READ, [inside])
    return this.#guest.files.read(inside, { user: 'root', signal: this.#signal })
  }

  async write(path: string, content: Readable, o: EntryOptions): Promise<VolumeEntry> {
    const inside = insideOf(path)
    const isNew = await this.stat(path).then(
      () => false,
      (error: unknown) => {
        if (isAgentPodError(error, 'not_found')) return true
        throw error
      },
    )
    await this.#run(path, PARENTS, [inside, ids(withUsualIds(o))])
    try {
      await this.#guest.files.write(inside, content, { user: 'root', signal: this.#signal })
    } catch (error) {
      // A part of a new file is of no use to anyone, and a full volume needs the space.
      if (isNew) await this.remove(path).catch(() => undefined)
      throw error
    }
    await this.#run(path, SET, [inside, ids(isNew ? withUsualIds(o) : o), mode(o)])
    return this.stat(path)
  }

  async #run(path: string, script: string, args: readonly string[]): Promise<string> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(CALL_MS)])
    const output: Buffer[] = []
    let errors = ''
    let length = 0
    const command = { command: '/bin/sh', args: ['-c', HEAD + script, 'sh', ...args], env: {} }
    const events = this.#guest.processes.start(
      { ...command, user: 'root', cwd: '/', stdin: false, timeoutMs: CALL_MS },
      { signal },
    )
    for await (const event of events) {
      if (event.kind === 'stdout') {
        length += event.data.length
        if (length > LONGEST_LISTING) throw tooLong()
        output.push(event.data)
      }
      if (event.kind === 'stderr') errors = (errors + event.data.toString('utf8')).slice(0, 1000)
      if (event.kind === 'end' && event.exit.exitCode !== 0) throw failure(path, event.exit.exitCode, errors)
    }
    return Buffer.concat(output).toString('utf8')
  }
}

/** SECURITY: FS-34. `..` is refused and not resolved; the rest is a path below the volume. */
function insideOf(path: string): string {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  if (path.includes('\0') || path.length > LONGEST_PATH || parts.includes('..'))
    throw invalid('volume.path', 'a path in a volume has no `..` and at most 4096 characters')
  return [VOLUME_PATH, ...parts].join('/')
}

function withUsualIds({ uid = USUAL_ID, gid = USUAL_ID }: EntryOptions): EntryOptions {
  return { uid, gid }
}

function ids({ uid, gid }: EntryOptions): string {
  if (uid === undefined && gid === undefined) return ''
  return `${uid ?? ''}${gid === undefined ? '' : `:${gid}`}`
}

/** Without the bits for the type of file, which some callers send along. */
function mode({ mode: bits }: EntryOptions): string {
  return bits === undefined ? '' : (bits & 0o7777).toString(8).padStart(4, '0')
}

const TYPES: Readonly<Record<string, VolumeEntry['type']>> = { f: 'file', d: 'directory', l: 'symlink' }
const FIELDS = 10

/** Hostile: names of files are whatever a program has written. They have no NUL. */
function parseEntries(text: string, directory: string): VolumeEntry[] {
  const fields = text.split('\0')
  const entries: VolumeEntry[] = []
  for (let at = 0; at + FIELDS < fields.length + 1 && fields[at] !== ''; at += FIELDS) {
    const [type = '', size, bits = '', uid, gid, atime, mtime, ctime, below = '', target = ''] = fields.slice(
      at,
      at + FIELDS,
    )
    const above = directory.slice(VOLUME_PATH.length)
    const path = (below === '' ? above : `${above}/${below}`) || '/'
    entries.push({
      name: path.split('/').at(-1) ?? '',
      type: TYPES[type] ?? 'unknown',
      path,
      size: Number(size),
      mode: Number.parseInt(bits, 8),
      uid: Number(uid),
      gid: Number(gid),
      atime: time(atime),
      mtime: time(mtime),
      ctime: time(ctime),
      ...(type === 'l' && { target }),
    })
  }
  return entries
}

function time(seconds: string | undefined): string {
  const ms = Math.round(Number(seconds) * 1000)
  return new Date(Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? ms : 0).toISOString()
}

function absent(path: string): AgentPodError {
  return new AgentPodError({ code: 'not_found', reason: 'volume.no_path', message: `path ${path} not found` })
}

function tooLong(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'volume.listing',
    message: 'the listing is too long',
    hint: 'list fewer levels, or a smaller directory',
  })
}

function failure(path: string, code: number, errors: string): AgentPodError {
  if (code === ABSENT || code === OUTSIDE) return absent(path)
  if (code === EXISTS)
    return new AgentPodError({
      code: 'already_exists',
      reason: 'volume.path_exists',
      message: `path ${path} exists already`,
    })
  if (code === NO_DIRECTORY)
    return invalid('volume.path', `path ${path} has a file where a directory is needed, or the reverse`)
  if (/No space left|quota exceeded/i.test(errors))
    return new AgentPodError({
      code: 'resource_exhausted',
      reason: 'disk.full',
      message: 'the volume is full',
      hint: 'remove files in it, or use a larger volume',
    })
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'volume.failed',
    message: `the files of the volume could not be changed: ${errors.trim().split('\n').at(-1) ?? ''}`,
  })
}
